// Rules of inputs' elements: their words, what a call is refused for, and that generated cases keep them.
#include "weft/fill.h"

#include <gmock/gmock.h>

#include "verify/fuzz.h"
#include "weft/op.h"

namespace weft::test {
namespace {

using testing::HasSubstr;
using testing::StrEq;

// Rows of ragged groups, put into the slots of a paged cache; rows beyond `count` are left as they are.
struct Ragged {
    static constexpr std::string_view kName = "ragged";
    Tensor x{}, offsets{}, parts{}, ends{}, slots{}, pick{}, count{}, cache{}, out{};

    static const Contract& contract() {
        using Op = Ragged;
        static const Contract c =
            Describe<Op>(std::string(kName),
                         "cache[slots[t]] = x[t]; out[t] = x[pick[t]] + group(t), t < count")
                .in("x", &Op::x, "tokens dim", DType::fp32, "the rows")
                .in("offsets", &Op::offsets, "groups+1", kIndex, "where groups begin")
                .fill(Fill::offsets("tokens"))
                .in("parts", &Op::parts, "experts", kIndex, "rows of each expert")
                .fill(Fill::parts("tokens"))
                .in("ends", &Op::ends, "groups", kIndex, "where groups end")
                .optional()
                .fill(Fill::ends("tokens"))
                .in("slots", &Op::slots, "tokens", kIndex, "where rows go")
                .fill(Fill::slots("pages*page_size").or_minus_one())
                .in("pick", &Op::pick, "tokens", kIndex, "which row")
                .fill(Fill::index("tokens").outside_is_defined())
                .in("count", &Op::count, "1", DType::int32, "rows that are there")
                .optional()
                .fill(Fill::count("tokens"))
                .inout("cache", &Op::cache, "pages page_size dim", DType::fp32, "the cache")
                .layout(Layout::dense)
                .out("out", &Op::out, "tokens dim", DType::fp32, "the sums")
                .partial()
                .sizes("pages", {1, 2, 9})
                .sizes("page_size", {1, 4})
                .sizes("tokens", {0, 1, 5, 17, 40})
                .sizes("groups", {1, 2, 7})
                .sizes("experts", {1, 3, 8})
                .sizes("dim", {1, 3})
                .tolerance("one rounding")
                .source("nothing");
        return c;
    }
};

void reference(const Ragged& op, Oracle& oracle) {
    const std::int64_t dim = op.x.dim(1);
    const auto at = [](const Tensor& t, std::int64_t i) {
        return load_integer(t.dtype, t.data, i * t.stride[0]);
    };
    const std::int64_t rows = op.count ? at(op.count, 0) : op.x.dim(0);
    std::int64_t group = 0;
    for (std::int64_t t = 0; t < op.x.dim(0); ++t) {
        while (at(op.offsets, group + 1) <= t) ++group;
        const std::int64_t slot = at(op.slots, t), row = at(op.pick, t);
        const bool there = row >= 0 && row < op.x.dim(0);
        for (std::int64_t i = 0; i < dim; ++i) {
            const double x = load_element(DType::fp32, op.x.data, t * op.x.stride[0] + i);
            if (slot >= 0) oracle.store(op.cache, slot * dim + i, x);
            if (t >= rows) continue;
            const double picked = there ? load_element(DType::fp32, op.x.data, row * op.x.stride[0] + i) : 0;
            const double sum = picked + static_cast<double>(group);
            oracle.store(op.out, t * op.out.stride[0] + i, sum,
                         std::isfinite(sum) ? kEps32 * std::fabs(sum) : 0);
        }
    }
}
const RegisterReference<Ragged> kReference{reference};

struct Call {
    Call() {
        op.x = Tensor(x, DType::fp32, {4, 2});
        op.offsets = Tensor(offsets, DType::int32, {3});
        op.parts = Tensor(parts, DType::int64, {2});
        op.ends = Tensor(ends, DType::int32, {2});
        op.slots = Tensor(slots, DType::int32, {4});
        op.pick = Tensor(pick, DType::int32, {4});
        op.count = Tensor(&count, DType::int32, {1});
        op.cache = Tensor(cache, DType::fp32, {2, 3, 2});
        op.out = Tensor(out, DType::fp32, {4, 2});
    }
    std::string message() const {
        try {
            run(op);
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
            return e.what();
        }
        return "ran";
    }

    float x[8] = {}, cache[12] = {}, out[8] = {};
    std::int32_t offsets[3] = {0, 4, 4}, ends[2] = {1, 3}, slots[4] = {5, -1, 0, -1}, pick[4] = {0, 1, 2, 3},
                 count = 4;
    std::int64_t parts[2] = {0, 4};
    Ragged op{};
};

TEST(Rules, HoldWhereTheHostSeesTheElements) {
    EXPECT_EQ(Call().message(), "ran");
    const auto refused = [](auto change) {
        Call call;
        change(call);
        return call.message();
    };
    EXPECT_THAT(
        refused([](Call& c) { c.offsets[0] = 1; }),
        StrEq("ragged.offsets: expected numbers from 0 to tokens=4, none below the one before, got 1 at 0"));
    EXPECT_THAT(refused([](Call& c) { c.offsets[2] = 3; }), HasSubstr("got 3 at 2"));
    EXPECT_THAT(refused([](Call& c) { c.offsets[1] = c.offsets[2] = 3; }), HasSubstr("got 3 as the last"));
    EXPECT_THAT(refused([](Call& c) { c.offsets[2] = 5; }), HasSubstr("got 5 at 2"));
    EXPECT_THAT(refused([](Call& c) { c.parts[0] = 1; }),
                StrEq("ragged.parts: expected numbers from 0 on with the sum tokens=4, got 4 at 1"));
    EXPECT_THAT(refused([](Call& c) { c.parts[1] = 3; }), HasSubstr("got 3 as their sum"));
    EXPECT_THAT(refused([](Call& c) { c.parts[0] = -1; }), HasSubstr("got -1 at 0"));
    EXPECT_THAT(refused([](Call& c) { c.parts[0] = INT64_MAX; }), HasSubstr("at 0"));
    EXPECT_THAT(
        refused([](Call& c) { c.ends[1] = 0; }),
        StrEq(
            "ragged.ends: expected numbers from 0 on up to tokens=4, none below the one before, got 0 at 1"));
    EXPECT_THAT(refused([](Call& c) { c.ends[1] = 5; }), HasSubstr("got 5 at 1"));
    EXPECT_THAT(refused([](Call& c) { c.ends[0] = -1; }), HasSubstr("got -1 at 0"));
    EXPECT_THAT(
        refused([](Call& c) { c.slots[1] = 5; }),
        StrEq("ragged.slots: expected different numbers in [0, pages*page_size=6), or -1: none, got 5 at 0 "
              "and at 1"));
    EXPECT_THAT(refused([](Call& c) { c.slots[1] = 6; }), HasSubstr("got 6 at 1"));
    EXPECT_THAT(refused([](Call& c) { c.slots[1] = -2; }), HasSubstr("got -2 at 1"));
    EXPECT_THAT(refused([](Call& c) { c.pick[3] = 4; }),
                StrEq("ragged.pick: expected numbers in [0, tokens=4), got 4 at 3"));
    EXPECT_THAT(refused([](Call& c) { c.count = 5; }),
                StrEq("ragged.count: expected numbers in [0, tokens=4], got 5 at 0"));
    EXPECT_THAT(refused([](Call& c) { c.count = -1; }), HasSubstr("got -1 at 0"));
}

// Sums beyond 64 bits come round to any number.
TEST(Rules, PartsDoNotAddUpByWrappingAround) {
    std::int64_t parts[] = {1, INT64_MAX, INT64_MAX, 6};
    const Tensor tensor(&parts[0], DType::int64, {4});
    EXPECT_THAT(Fill::parts("tokens").breach(tensor, 5), HasSubstr("9223372036854775807 at 1"));
}

TEST(Rules, HoldForTheElementsOfAViewAndNoOthers) {
    std::int32_t ids[12] = {1, 2, 99, 0, 3, 0, 99, 1, 2, 3, 99, 99};
    const Tensor view(ids, DType::int32, std::vector<std::int64_t>{3, 2}, std::vector<std::int64_t>{4, 1});
    const Fill fill = Fill::index("n");
    EXPECT_EQ(fill.breach(view, 4), "");
    ids[9] = 4;
    EXPECT_EQ(fill.breach(view, 4), "expected numbers in [0, n=4), got 4 at 5");
}

TEST(Rules, AreSaidInWords) {
    const Contract& c = Ragged::contract();
    const auto rules = [&](const char* field) {
        return c.rules(c.fields()[static_cast<std::size_t>(c.find_field(field))]);
    };
    EXPECT_THAT(rules("slots"),
                testing::ElementsAre("different numbers in [0, pages*page_size), or -1: none"));
    EXPECT_THAT(rules("x"), testing::IsEmpty());
}

// Their values are checked by every run on the CPU, and the comparison finds rows that a partial output leaves alone.
TEST(Rules, AreKeptByGeneratedCases) {
    FuzzOptions options;
    options.cases = 300;
    options.seed = 9;
    const FuzzReport report = fuzz(*find_op("ragged"), options);
    EXPECT_EQ(report.cases, 300);
    for (const auto& failure : report.failures)
        ADD_FAILURE() << failure.why << "\n" << command(failure.trial, kCpu);
}

TEST(Rules, LetDrawnValuesReachTheirEnds) {
    const Case c = Case::parse(
        "ragged x=fp32[40,3] offsets=int32[8] parts=int64[5] ends=int32[7] slots=int32[40] pick=int32[40] "
        "count=int32[1] cache=fp32[10,4,3]");
    bool full = false, empty_group = false, all_slots = false;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        const Instance instance(c, kCpu, seed, Values::usual);
        const auto& op = *static_cast<const Ragged*>(instance.call());
        full = full || op.count.as<std::int32_t>()[0] == 40;
        for (int i = 0; i < 7; ++i)
            empty_group =
                empty_group || op.offsets.as<std::int32_t>()[i] == op.offsets.as<std::int32_t>()[i + 1];
        for (int i = 0; i < 40; ++i) all_slots = all_slots || op.slots.as<std::int32_t>()[i] == 39;
    }
    EXPECT_TRUE(full && empty_group && all_slots);
}

TEST(Rules, ThatNoValuesKeepMakeNoCase) {
    EXPECT_FALSE(Fill::index("n").exists(1, 0));
    EXPECT_TRUE(Fill::index("n").exists(0, 0));
    EXPECT_FALSE(Fill::slots("n").exists(4, 3));
    EXPECT_TRUE(Fill::slots("n").exists(3, 3));
    EXPECT_TRUE(Fill::slots("n").or_minus_one().exists(4, 3));
    EXPECT_FALSE(Fill::parts("n").exists(0, 3));
    EXPECT_FALSE(Fill::parts("n").exists(0, 1));
    EXPECT_TRUE(Fill::parts("n").exists(0, 0));
    EXPECT_TRUE(Fill::parts("n").exists(1, 3));
    for (const Fill& fill : {Fill::index("n"), Fill::slots("n"), Fill::parts("n"), Fill::offsets("n")})
        EXPECT_TRUE(fill.exists(0, kUnknown) && fill.exists(3, kUnknown)) << fill.rule();
    EXPECT_FALSE(Fill::offsets("n").exists(1, 3));
    EXPECT_TRUE(Fill::offsets("n").exists(1, 0));
}

struct Misspelt {
    static constexpr std::string_view kName = "misspelt";
    Tensor ids{}, out{};

    static std::string refusal(Fill fill, DTypeSet dtypes) {
        try {
            const Contract c = Describe<Misspelt>(std::string(kName), "out = ids")
                                   .in("ids", &Misspelt::ids, "rows", dtypes, "numbers")
                                   .fill(std::move(fill))
                                   .out("out", &Misspelt::out, "rows vocab", kFloat, "rows");
            return "accepted";
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), ErrorCode::internal);
            return e.what();
        }
    }
};

TEST(Rules, NameAxesThatThereAre) {
    EXPECT_EQ(Misspelt::refusal(Fill::index("vocab"), kIndex), "accepted");
    EXPECT_EQ(
        Misspelt::refusal(Fill::index("vocba"), kIndex),
        "misspelt.ids: its description has values of numbers in [0, vocba), and no field has the axis vocba");
    EXPECT_THAT(Misspelt::refusal(Fill::index("2*"), kIndex), HasSubstr("axis expression '2*' at 2"));
    EXPECT_THAT(Misspelt::refusal(Fill::index("vocab"), kFloat), HasSubstr("only integers"));
}

}  // namespace
}  // namespace weft::test
