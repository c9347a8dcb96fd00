// What sampled cases are drawn from: sizes, dtypes, options, strides and shared memory as users have them. How often
// is a choice; that all of it comes, and nothing else, is none.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tests/bench/drawn.h"

namespace weft::test {
namespace {

using testing::ElementsAre;

struct UsedRows {
    static constexpr std::string_view kName = "used_rows";
    Tensor x{}, weight{}, other{}, scale{}, tail{}, out{};
    float factor = 0.7f;
    std::int64_t groups = 1, heads = 0;

    static const Contract& contract() {
        using Op = UsedRows;
        static const Contract c =
            Describe<Op>(std::string(kName), "nothing")
                .in("x", &Op::x, "... dim", kFloat | DType::fp8_e4m3, "rows")
                .in("weight", &Op::weight, "dim", kFloat, "a vector")
                .optional()
                .in("other", &Op::other, "... dim", kFloat | DType::fp8_e4m3, "as x")
                .optional()
                .in("scale", &Op::scale, "1", DType::fp32, "of x")
                .optional()
                .scale_of("x")
                .fill(Fill::scale())
                .in("tail", &Op::tail, "extra few groups heads", kFloat, "axes that nothing else has")
                .optional()
                .out("out", &Op::out, "... dim", kFloat | DType::fp8_e4m3, "rows")
                .in_place_of("x")
                .option("factor", &Op::factor, 0, 1, "a number", {0.1, 0.3})
                .option("groups", &Op::groups, 0, 64, "an axis", {2, 4})
                .option("heads", &Op::heads, 0, 64, "an axis")
                .sizes("extra", {1, 17, 40})
                .sizes("few", {0, 3, 5})
                .flops(+[](const Op& op) { return static_cast<double>(op.x.numel()); })
                .tolerance("none")
                .source("nothing");
        return c;
    }
};
const RegisterReference<UsedRows> kUsedRows{nothing<UsedRows>};

TEST(DrawnRows, HaveSizesBetweenTheirEndsOnAScaleOfOctaves) {
    const auto cases = drawn("used_rows");
    std::map<int, int> octaves;
    std::set<std::int64_t> leading;
    std::map<std::size_t, int> ranks;
    for (const Case& c : cases) {
        const auto& shape = field(c, "x").shape;
        ++octaves[static_cast<int>(std::log2(static_cast<double>(shape.back())))];
        EXPECT_TRUE(shape.back() >= 64 && shape.back() <= 16384) << shape.back();
        ++ranks[shape.size()];
        if (shape.size() == 2) {
            leading.insert(shape[0]);
        } else {
            EXPECT_TRUE(shape[0] >= 1 && shape[0] <= 64) << c.line();
            EXPECT_TRUE(shape[1] >= 1 && shape[1] <= 8192) << c.line();
        }
    }
    for (int octave = 6; octave < 14; ++octave) EXPECT_GT(octaves[octave], kDrawn / 20) << octave;
    EXPECT_EQ(*leading.begin(), 1);
    EXPECT_GT(*leading.rbegin(), 40'000);
    EXPECT_LE(*leading.rbegin(), 65'536);
    EXPECT_EQ(ranks.size(), 2u);
    expect_both(ranks[3], cases.size(), "two leading axes", kOneIn);
    for (const std::int64_t of : {2, 8, 64, 256}) {
        const int multiples =
            cases_that(cases, [&](const Case& c) { return field(c, "x").shape.back() % of == 0; });
        expect_both(multiples, cases.size(), "multiples", kOneIn);
    }
    EXPECT_GT(cases_that(cases, [](const Case& c) { return field(c, "x").shape.back() % 2 == 1; }),
              kDrawn / 100);
}

TEST(DrawnRows, HaveTheSizesOfAxesThatNoTableKnows) {
    std::set<std::int64_t> few, extra, groups, heads;
    for (const Case& c : drawn("used_rows")) {
        EXPECT_EQ(option(c, "factor"), static_cast<float>(option(c, "factor")));
        if (!field(c, "tail").present) continue;
        const auto& shape = field(c, "tail").shape;
        extra.insert(shape[0]), few.insert(shape[1]), groups.insert(shape[2]), heads.insert(shape[3]);
        EXPECT_EQ(static_cast<double>(shape[2]), option(c, "groups"));
        EXPECT_EQ(static_cast<double>(shape[3]), option(c, "heads"));
    }
    EXPECT_THAT(few, ElementsAre(1, 3, 5)) << "small ones as tests have them, and none empty";
    EXPECT_GE(*extra.begin(), 16);
    EXPECT_LE(*extra.begin(), 32);
    EXPECT_LE(*extra.rbegin(), 8192);
    EXPECT_GT(*extra.rbegin(), 4096);
    EXPECT_THAT(groups, ElementsAre(2, 4));
    EXPECT_THAT(heads, ElementsAre(1, 2, 4, 8, 12, 14, 16, 24, 28, 32, 40, 64));
}

TEST(DrawnRows, HaveOptionsMostlyAtTheirDefaults) {
    const auto cases = drawn("used_rows");
    std::map<double, int> factors;
    for (const Case& c : cases) ++factors[option(c, "factor")];
    EXPECT_EQ(factors.size(), 3u);
    EXPECT_GT(factors[0.7f], kDrawn / 2);
    EXPECT_GT(factors[0.1f], kDrawn / 50);
    EXPECT_GT(factors[0.3f], kDrawn / 50);
}

TEST(DrawnRows, HaveTheDTypesOfCheckpoints) {
    const auto cases = drawn("used_rows");
    std::map<DType, int> x;
    int vectors = 0, alike = 0, of = 0, plain = 0, mixed = 0, both_halves = 0, exceptions = 0;
    for (const Case& c : cases) {
        const DType type = field(c, "x").dtype;
        ++x[type];
        if (field(c, "weight").present) {
            EXPECT_TRUE(kFloat.contains(field(c, "weight").dtype));
            if (type == DType::bf16) vectors += field(c, "weight").dtype == DType::fp32 ? 1 : 0;
        }
        if (field(c, "other").present) {
            ++of;
            alike += field(c, "other").dtype == type ? 1 : 0;
            if (type == DType::bf16) both_halves += field(c, "other").dtype == DType::fp16 ? 1 : 0;
        }
        (field(c, "out").dtype == type ? plain : mixed) += 1;
        exceptions += type == DType::bf16 && field(c, "out").dtype == DType::fp16 ? 1 : 0;
    }
    EXPECT_EQ(x.size(), 4u);
    EXPECT_GT(x[DType::bf16], x[DType::fp8_e4m3]);
    EXPECT_GT(x[DType::fp8_e4m3], x[DType::fp16]);
    EXPECT_GT(x[DType::fp16], kDrawn / 20);
    EXPECT_GT(x[DType::fp32], kDrawn / 20);
    EXPECT_GT(vectors, kDrawn / 20) << "fp32 weights beside bf16";
    EXPECT_GT(alike, of * 3 / 4);
    EXPECT_LT(alike, of);
    EXPECT_LT(both_halves * 20, of) << "one checkpoint has one 16-bit type";
    EXPECT_GT(exceptions, 0) << "but not always";
    expect_both(mixed, cases.size(), "results of another dtype", kOneIn);
    EXPECT_GT(plain, mixed);
}

TEST(DrawnRows, HaveOptionalFieldsAsCallsDo) {
    const auto cases = drawn("used_rows");
    const auto there = [&](const char* name) {
        return 100 * cases_that(cases, [&](const Case& c) { return field(c, name).present; }) / kDrawn;
    };
    EXPECT_GT(there("weight"), 80) << "norms nearly always have weights";
    EXPECT_LT(there("weight"), 99);
    EXPECT_GT(there("other"), 25);
    EXPECT_LT(there("other"), 60);
    EXPECT_EQ(there("out"), 100);
    int narrow = 0, scaled = 0;
    for (const Case& c : cases) {
        const bool is_narrow = field(c, "x").dtype == DType::fp8_e4m3;
        narrow += is_narrow ? 1 : 0;
        scaled += field(c, "scale").present ? 1 : 0;
        EXPECT_TRUE(is_narrow || !field(c, "scale").present);
        if (field(c, "scale").present) {
            EXPECT_EQ(field(c, "scale").shape, (std::vector<std::int64_t>{1}));
            EXPECT_TRUE(field(c, "scale").stride.empty() && field(c, "scale").offset == 0) << "one element";
        }
    }
    EXPECT_GT(scaled, narrow * 7 / 10);
    EXPECT_LT(scaled, narrow);
}

TEST(DrawnRows, AreMostlyPlainAndSometimesViewsAtOddAddresses) {
    const auto cases = drawn("used_rows");
    std::set<std::int64_t> offsets, gaps;
    int views = 0;
    for (const Case& c : cases) {
        const TensorSpec& x = field(c, "x");
        offsets.insert(x.offset);
        if (x.stride.empty()) continue;
        ++views;
        const std::size_t last = x.shape.size() - 1;
        EXPECT_EQ(x.stride[last], 1);
        const std::int64_t gap = x.stride[last - 1] - x.shape[last];
        EXPECT_GT(gap, 0);
        gaps.insert(gap == x.shape[last] ? -1 : gap == 2 * x.shape[last] ? -2 : gap);
        for (std::size_t axis = last - 1; axis-- > 0;)
            EXPECT_EQ(x.stride[axis], x.stride[axis + 1] * x.shape[axis + 1]);
    }
    EXPECT_EQ(*offsets.begin(), 0);
    EXPECT_EQ(*offsets.rbegin(), 9);
    EXPECT_GE(offsets.size(), 8u);
    EXPECT_GT(views, kDrawn / 30);
    EXPECT_LT(views, kDrawn / 4);
    for (const std::int64_t gap : {-1, -2, 8, 64}) EXPECT_TRUE(gaps.contains(gap)) << gap;
    std::erase_if(gaps, [](std::int64_t gap) { return gap < 0 || gap == 8 || gap == 64; });
    EXPECT_GE(*gaps.begin(), 1);
    EXPECT_LE(*gaps.rbegin(), 7);
}

TEST(DrawnRows, AreSometimesWrittenOverTheirInput) {
    const auto cases = drawn("used_rows");
    const int x = cases[0].contract().find_field("x");
    int over = 0;
    for (const Case& c : cases) {
        if (field(c, "out").alias != x) continue;
        ++over;
        EXPECT_EQ(field(c, "out").dtype, field(c, "x").dtype);
        EXPECT_EQ(field(c, "out").shape, field(c, "x").shape);
        EXPECT_EQ(field(c, "out").stride, field(c, "x").stride);
    }
    expect_both(over, cases.size(), "in place", kOneIn);
}

TEST(DrawnRows, KeepToTheirLimits) {
    const DrawLimits limits{.least_bytes = 1e5, .most_bytes = 1e6, .most_flops = 2e5};
    const auto cases = drawn("used_rows", 200, limits);
    EXPECT_EQ(cases.size(), 200u);
    double least = 1e9, most = 0, flops = 0;
    for (const Case& c : cases) {
        c.with_call(kCpu, [&](const void* call) {
            const Work work = c.contract().work(call);
            least = std::min(least, work.bytes), most = std::max(most, work.bytes);
            flops = std::max(flops, work.flops);
        });
        double memory = 0;
        for (const TensorSpec& t : c.tensors)
            memory += t.present ? static_cast<double>(bytes(t.dtype, t.span())) : 0;
        EXPECT_LE(memory, 8 * limits.most_bytes);
    }
    EXPECT_TRUE(least >= 1e5 && least < 2e5);
    EXPECT_TRUE(most <= 1e6 && most > 5e5);
    EXPECT_TRUE(flops <= 2e5 && flops > 1e5);
    EXPECT_TRUE(drawn("used_rows", 1, {.least_bytes = 2, .most_bytes = 1, .most_flops = 1}).empty());
}

// Of a table the contract counts the rows that are used; the others have to be somewhere, too.
TEST(DrawnRows, HaveRoomForWhatNoCallMoves) {
    const auto cases = drawn("embedding", 100, {.least_bytes = 1e4, .most_bytes = 1e6, .most_flops = 1e9});
    EXPECT_EQ(cases.size(), 100u);
    for (const Case& c : cases)
        EXPECT_LE(static_cast<double>(bytes(field(c, "table").dtype, field(c, "table").span())), 8e6)
            << c.line();
}

}  // namespace
}  // namespace weft::test
