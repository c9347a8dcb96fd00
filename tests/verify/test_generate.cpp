// The generator of cases: everything that a contract allows is drawn, again and again, and nothing else. What is
// drawn how often is a choice; that it is drawn is none. Here sizes, options and dtypes; long axes; limits.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "tests/verify/generated.h"

namespace weft::test {
namespace {

using testing::ElementsAre;

// ---- sizes, options, dtypes ----

struct Sized {
    static constexpr std::string_view kName = "sized";
    Tensor x{}, table{}, blocks{}, deep{}, out{};
    float factor = 0.7f;
    std::int64_t groups = 1, parts = 9;

    static const Contract& contract() {
        using Op = Sized;
        static const Contract c = Describe<Op>(std::string(kName), "nothing")
                                      .in("x", &Op::x, "... dim", kFloat, "rows")
                                      .in("table", &Op::table, "groups dim", kFloat, "a table")
                                      .optional()
                                      .in("blocks", &Op::blocks, "parts", kFloat, "as many as an option says")
                                      .optional()
                                      .in("deep", &Op::deep, "groups a b c", kFloat, "axes, and none of x's")
                                      .optional()
                                      .out("out", &Op::out, "... dim", kFloat, "rows")
                                      .option("factor", &Op::factor, 0, 1, "a number", {0.1, 0.3})
                                      .option("groups", &Op::groups, 0, 64, "sizes table", {2, 4})
                                      .option("parts", &Op::parts, 0, 64, "sizes blocks")
                                      .sizes("dim", {1, 17, 33, 48})
                                      .sizes("parts", {3, 5})
                                      .sizes("a", {1, 2})
                                      .sizes("b", {1, 2})
                                      .sizes("c", {1, 2})
                                      .tolerance("none")
                                      .source("nothing");
        return c;
    }
};
const RegisterReference<Sized> kSized{nothing<Sized>};

std::vector<std::int64_t> leading(const Case& c) {
    const auto& shape = field(c, "x").shape;
    return {shape.begin(), shape.end() - 1};
}

TEST(Generator, DrawsEverySampleOfAnOption) {
    const auto cases = generated("sized");
    const auto factors = counted(cases, [](const Case& c) { return option(c, "factor"); });
    EXPECT_EQ(keys(factors), (std::set<double>{0.7f, 0.1f, 0.3f})) << "as a float holds them";
    for (const auto& [value, count] : factors) EXPECT_GT(count, kCases / 20) << value;
    const auto groups = counted(cases, [](const Case& c) { return option(c, "groups"); });
    EXPECT_EQ(keys(groups), (std::set<double>{1, 2, 4}));
    for (const double value : {1, 2, 4}) EXPECT_GT(groups.at(value), kCases / 20) << value;
    const auto parts = counted(cases, [](const Case& c) { return option(c, "parts"); });
    EXPECT_TRUE(parts.contains(3) && parts.contains(5));
    EXPECT_GT(parts.at(3), kCases / 20);
    EXPECT_GT(parts.at(5), kCases / 20);
}

TEST(Generator, SizesAxesByTheOptionsThatNameThem) {
    for (const Case& c : generated("sized", 500)) {
        EXPECT_NO_THROW(c.check()) << c.line();
        if (field(c, "table").present) {
            EXPECT_EQ(field(c, "table").shape[0], option(c, "groups"));
        }
        if (field(c, "blocks").present) {
            EXPECT_EQ(field(c, "blocks").shape[0], option(c, "parts"));
        }
    }
}

TEST(Generator, DrawsTheSizesThatAContractGivesAndWholeVectors) {
    const auto dims = counted(generated("sized"), [](const Case& c) { return field(c, "x").shape.back(); });
    EXPECT_EQ(keys(dims), (std::set<std::int64_t>{0, 1, 16, 17, 32, 33, 48})) << "also rounded up to 16";
    for (const std::int64_t dim : {1, 16, 17, 32, 33, 48}) EXPECT_GT(dims.at(dim), kCases / 50) << dim;
    EXPECT_GT(dims.at(17), dims.at(32)) << "mostly as they are";
    EXPECT_LT(dims.at(0), kCases / 20) << "few calls are empty";
}

TEST(Generator, DrawsAnyNumberOfLeadingAxes) {
    const auto cases = generated("sized");
    const auto ranks = counted(cases, [](const Case& c) { return leading(c).size(); });
    EXPECT_EQ(keys(ranks), (std::set<std::size_t>{0, 1, 2, 3}));
    for (const auto& [rank, count] : ranks) EXPECT_GT(count, kCases / 50) << rank;
    EXPECT_GT(ranks.at(1), kCases / 2) << "mostly one";
    std::set<std::int64_t> alone, beside;
    for (const Case& c : cases) {
        const auto axes = leading(c);
        (axes.size() == 1 ? alone : beside).insert(axes.begin(), axes.end());
    }
    EXPECT_THAT(beside, ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(alone, ElementsAre(1, 2, 3, 4, 5, 7, 8, 17, 33, 64, 129));
}

TEST(Generator, DrawsEveryDTypeAndMostlyOneForAllFields) {
    const auto cases = generated("sized");
    const auto dtypes = counted(cases, [](const Case& c) { return field(c, "x").dtype; });
    EXPECT_EQ(dtypes.size(), 3u);
    for (const auto& [dtype, count] : dtypes) EXPECT_GT(count, kCases / 5) << name(dtype);
    const int same =
        cases_that(cases, [](const Case& c) { return field(c, "out").dtype == field(c, "x").dtype; });
    EXPECT_GT(same, kCases / 2);
    EXPECT_LT(same, kCases * 95 / 100);
}

TEST(Generator, LeavesOutOptionalFieldsAndNoOthers) {
    const auto cases = generated("sized");
    int both = 0, none = 0, one = 0;
    for (const Case& c : cases) {
        ASSERT_TRUE(field(c, "x").present && field(c, "out").present);
        const int there = (field(c, "table").present ? 1 : 0) + (field(c, "blocks").present ? 1 : 0);
        ++(there == 2 ? both : there == 1 ? one : none);
    }
    EXPECT_GT(both, kCases / 10);
    EXPECT_GT(one, kCases / 5);
    EXPECT_GT(none, kCases / 3) << "as most calls are";
}

TEST(Generator, RepeatsItselfForASeed) {
    EXPECT_EQ(generated("sized", 40, {}, 5), generated("sized", 40, {}, 5));
    EXPECT_NE(generated("sized", 40, {}, 5), generated("sized", 40, {}, 6));
}

// Five axes besides the leading ones leave room for one of those.
struct Deep {
    static constexpr std::string_view kName = "deep";
    Tensor x{}, out{};

    static const Contract& contract() {
        using Op = Deep;
        static const Contract c = Describe<Op>(std::string(kName), "nothing")
                                      .in("x", &Op::x, "... a b c d", kFloat, "rows")
                                      .out("out", &Op::out, "... a b c d", kFloat, "rows")
                                      .sizes("a", {1, 2})
                                      .sizes("b", {1, 2})
                                      .sizes("c", {1, 2})
                                      .sizes("d", {1, 2})
                                      .tolerance("none")
                                      .source("nothing");
        return c;
    }
};
const RegisterReference<Deep> kDeep{nothing<Deep>};

TEST(Generator, DrawsAsManyLeadingAxesAsATensorHasRoomFor) {
    const auto ranks = counted(generated("deep"), [](const Case& c) { return field(c, "x").shape.size(); });
    EXPECT_EQ(keys(ranks), (std::set<std::size_t>{4, 5, 6}));
    for (const auto& [rank, count] : ranks) EXPECT_GT(count, kCases / 50) << rank;
}

// ---- limits ----

struct Fixed {
    static constexpr std::string_view kName = "fixed";
    Tensor x{}, out{};

    static const Contract& contract() {
        using Op = Fixed;
        static const Contract c =
            Describe<Op>(std::string(kName), "nothing")
                .in("x", &Op::x, "rows dim", DType::fp32, "rows")
                .layout(Layout::dense)
                .out("out", &Op::out, "rows dim", DType::fp32, "rows")
                .layout(Layout::dense)
                .flops(+[](const Op& op) { return 3.0 * static_cast<double>(op.x.numel()); })
                .sizes("rows", {2})
                .sizes("dim", {16})
                .tolerance("none")
                .source("nothing");
        return c;
    }
};
const RegisterReference<Fixed> kFixed{nothing<Fixed>};

bool whole(const Case& c) { return c.tensors[0].over(nullptr, kCpu).numel() == 32; }

TEST(Generator, KeepsToItsLimits) {
    EXPECT_GT(cases_that(generated("fixed", 100, {.elements = 64}), whole), 50);
    EXPECT_EQ(cases_that(generated("fixed", 100, {.elements = 63}), whole), 0) << "empty ones alone";
    EXPECT_GT(cases_that(generated("fixed", 100, {.flops = 96}), whole), 50);
    EXPECT_EQ(cases_that(generated("fixed", 100, {.flops = 95}), whole), 0);
    for (const Case& c : generated("fixed", 200, {.elements = 66})) {
        std::int64_t elements = 0;
        for (const TensorSpec& t : c.tensors) elements += t.span();
        EXPECT_LE(elements, 66) << "what is before the first element counts";
    }
}

TEST(Generator, DrawsNothingThatNoImplementationTakes) {
    OpEntry entry = *find_op("fixed");
    for (auto& list : entry.implementations) list.clear();
    Random random(3);
    for (int i = 0; i < 20; ++i) {
        const auto c = generate(entry, device_info(kCpu), random, {});
        if (c) {
            EXPECT_EQ(c->tensors[0].over(nullptr, kCpu).numel(), 0) << "an empty call is nothing to take";
        }
    }
    static int asked;
    asked = 0;
    entry.implementations[0] = {{"picky",
                                 +[](const Fixed& op, const DeviceInfo&) -> const char* {
                                     ++asked;
                                     return op.x.dim(0) == 2 ? nullptr : "other sizes";
                                 },
                                 +[](const Fixed&, const DeviceInfo&) { return std::string(); },
                                 +[](const Fixed&, Context&) {}}};
    int taken = 0;
    for (int i = 0; i < 20; ++i) taken += whole(*generate(entry, device_info(kCpu), random, {})) ? 1 : 0;
    EXPECT_GT(taken, 10);
    EXPECT_GE(asked, taken);
}

// ---- axes that dtypes and options size ----

struct ByDType {
    static constexpr std::string_view kName = "by_dtype";
    Tensor x{}, out{};

    static const Contract& contract() {
        using Op = ByDType;
        static const Contract c = Describe<Op>(std::string(kName), "nothing")
                                      .in("x", &Op::x, "rows size", kIndex, "as wide as its dtype says")
                                      .sizes_by_dtype("size", {{DType::int32, 1003}, {DType::int64, 2005}})
                                      .out("out", &Op::out, "rows", kFloat, "rows")
                                      .sizes("rows", {2, 4})
                                      .tolerance("none")
                                      .source("nothing");
        return c;
    }
};
const RegisterReference<ByDType> kByDType{nothing<ByDType>};

TEST(Generator, SizesAxesByTheDTypesThatSayThem) {
    const auto cases = generated("by_dtype", 200);
    const auto sizes = counted(cases, [](const Case& c) { return field(c, "x").shape[1]; });
    EXPECT_TRUE(sizes.contains(1003) && sizes.contains(2005));
}

struct Bare {
    static constexpr std::string_view kName = "bare";
    Tensor x{}, out{};
    std::int64_t size = 1;

    static const Contract& contract() {
        using Op = Bare;
        static const Contract c = Describe<Op>(std::string(kName), "nothing")
                                      .in("x", &Op::x, "size", kFloat, "numbers")
                                      .out("out", &Op::out, "size", kFloat, "numbers")
                                      .option("size", &Op::size, 0, 64, "of x", {2, 4})
                                      .tolerance("none")
                                      .source("nothing");
        return c;
    }
};
const RegisterReference<Bare> kBare{nothing<Bare>};

TEST(Generator, LengthensNothingWhereOptionsSayAllSizes) {
    Random random(5);
    for (int i = 0; i < 50; ++i) {
        const auto c = generate_large(*find_op("bare"), device_info(kCpu), random, {});
        ASSERT_TRUE(c);
        EXPECT_LE(field(*c, "x").shape[0], 16);
    }
}

// ---- large cases ----

TEST(Generator, MakesOneAxisLongAndKeepsTheOthersShort) {
    Random random(5);
    std::map<std::string, int> found;
    std::set<std::int64_t> lengths;
    const GenerateLimits limits{.elements = 1e6, .flops = 1e9};
    for (int i = 0; i < 600; ++i) {
        const auto c = generate_large(*find_op("sized"), device_info(kCpu), random, limits);
        ASSERT_TRUE(c);
        std::int64_t longest = 0;
        int many = 0;
        const auto see = [&](const char* what, std::int64_t size) {
            longest = std::max(longest, size);
            if (size < 300) return;
            ++many;
            ++found[what];
        };
        see("dim", field(*c, "x").shape.back());
        for (const std::int64_t size : leading(*c)) see("leading", size);
        EXPECT_LE(many, 1) << c->line();
        EXPECT_LT(longest, 66'008);
        if (longest >= 300) lengths.insert(longest);
        EXPECT_LE(option(*c, "groups"), 4) << "an option says its size";
        EXPECT_LE(option(*c, "parts"), 64);
    }
    EXPECT_GT(found["dim"], 60);
    EXPECT_GT(found["leading"], 60);
    EXPECT_GT(lengths.size(), 30u) << "no round numbers";
    EXPECT_GE(*lengths.rbegin(), 66'000);
    EXPECT_LT(*lengths.begin(), 308);
}

TEST(Generator, MakesAnyOfSeveralLeadingAxesLong) {
    Random random(6);
    std::set<std::size_t> places;
    std::set<std::int64_t> others;
    int short_dims = 0, of = 0;
    for (int i = 0; i < 1500; ++i) {
        const auto c = generate_large(*find_op("sized"), device_info(kCpu), random, {.elements = 1e6});
        ASSERT_TRUE(c);
        const auto axes = leading(*c);
        for (std::size_t axis = 0; axis < axes.size(); ++axis) {
            if (axes[axis] < 300) continue;
            if (axes.size() == 3) places.insert(axis);
            ++of;
            short_dims += field(*c, "x").shape.back() < 17 ? 1 : 0;
            if (const std::int64_t dim = field(*c, "x").shape.back(); dim > 1 && dim < 16) others.insert(dim);
        }
    }
    EXPECT_THAT(places, ElementsAre(0, 1, 2));
    EXPECT_GT(short_dims * 10, of * 3) << "other axes are often made shorter";
    EXPECT_GE(others.size(), 12u) << "to any size";
}

}  // namespace
}  // namespace weft::test
