// Where the generator puts tensors: at odd places, with gaps, transposed, over each other; and what broadcasts or is
// related.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tests/verify/generated.h"

namespace weft::test {
namespace {

using testing::ElementsAre;

// ---- layouts ----

struct LaidOut {
    static constexpr std::string_view kName = "laid_out";
    Tensor x{}, dense{}, inner{}, strided{}, packed{}, out{};

    static const Contract& contract() {
        using Op = LaidOut;
        static const Contract c = Describe<Op>(std::string(kName), "nothing")
                                      .in("x", &Op::x, "... dim", DType::fp32, "rows of one stride")
                                      .in("dense", &Op::dense, "... dim", DType::fp32, "without gaps")
                                      .layout(Layout::dense)
                                      .in("inner", &Op::inner, "... dim", DType::fp32, "contiguous rows")
                                      .layout(Layout::inner)
                                      .in("strided", &Op::strided, "... dim", DType::fp32, "any strides")
                                      .layout(Layout::strided)
                                      .in("packed", &Op::packed, "... dim", DType::fp4_e2m1, "pairs")
                                      .layout(Layout::strided)
                                      .out("out", &Op::out, "... dim", DType::fp32, "any strides")
                                      .layout(Layout::strided)
                                      .sizes("dim", {2, 6, 16})
                                      .tolerance("none")
                                      .source("nothing");
        return c;
    }
};
const RegisterReference<LaidOut> kLaidOut{nothing<LaidOut>};

bool repeats(const TensorSpec& spec) {
    return std::find(spec.stride.begin(), spec.stride.end(), 0) != spec.stride.end();
}

// Its axes in memory, innermost first, are these, and the gap after each that
// many elements.
std::vector<std::int64_t> gaps(const TensorSpec& spec, std::vector<std::size_t> order, std::int64_t first) {
    std::vector<std::int64_t> found;
    std::int64_t next = first;
    for (const std::size_t axis : order) {
        found.push_back(spec.stride[axis] - next);
        next = spec.stride[axis] * spec.shape[axis];
    }
    return found;
}

TEST(Generator, StartsTensorsAnywhereButPackedOnes) {
    const auto cases = generated("laid_out");
    for (const char* name : {"x", "dense", "inner", "strided", "out"}) {
        const auto offsets = counted(cases, [&](const Case& c) { return field(c, name).offset; });
        std::set<std::int64_t> all;
        for (std::int64_t i = 0; i < 10; ++i) all.insert(i);
        EXPECT_EQ(keys(offsets), all) << name;
        EXPECT_GT(offsets.at(0), kCases / 2) << name;
    }
    for (const Case& c : cases) {
        EXPECT_EQ(field(c, "packed").offset, 0);
        EXPECT_TRUE(field(c, "packed").stride.empty());
    }
}

TEST(Generator, LeavesGapsWhereALayoutAllowsThem) {
    const auto cases = generated("laid_out");
    std::set<std::int64_t> row_gaps, inner_gaps, outer_gaps;
    std::map<std::string, int> strided;
    int moved = 0, dense = 0;
    for (const Case& c : cases) {
        EXPECT_TRUE(field(c, "dense").stride.empty());
        const TensorSpec& any = field(c, "strided");
        if (any.offset > 0 && any.shape.size() > 1 && std::ranges::min(any.shape) > 1)
            ++moved, dense += any.stride.empty() ? 1 : 0;
        for (const char* name : {"x", "inner", "strided", "out"})
            strided[name] += !field(c, name).stride.empty() && !repeats(field(c, name)) ? 1 : 0;
        const TensorSpec &x = field(c, "x"), &inner = field(c, "inner");
        const std::size_t rank = x.shape.size();
        if (rank == 1) continue;
        if (!x.stride.empty()) {
            EXPECT_EQ(x.stride.back(), 1);
            const std::int64_t gap = x.stride[rank - 2] - x.shape.back();
            row_gaps.insert(gap);
            for (std::size_t axis = rank - 2; axis-- > 0;)
                EXPECT_EQ(x.stride[axis], x.stride[axis + 1] * x.shape[axis + 1]) << c.line();
        }
        if (!inner.stride.empty() && !repeats(inner)) {
            EXPECT_EQ(inner.stride.back(), 1);
            inner_gaps.insert(inner.stride[rank - 2] - inner.shape.back());
            if (rank > 2)
                outer_gaps.insert(inner.stride[rank - 3] - inner.stride[rank - 2] * inner.shape[rank - 2]);
        }
    }
    for (const auto& [name, count] : strided) expect_both(count, cases.size(), name.c_str());
    EXPECT_GT(dense * 2, moved)
        << "most are dense, and not only in tidy cases, which begin where their memory does";
    const std::set<std::int64_t> all = {0, 1, 2, 3, 4, 5, 6, 7, 8}, some = {1, 2, 3, 4, 5, 6, 7, 8};
    EXPECT_TRUE(std::ranges::includes(all, row_gaps)) << "at most eight elements";
    EXPECT_TRUE(std::ranges::includes(row_gaps, some));
    EXPECT_EQ(inner_gaps, all);
    EXPECT_TRUE(std::ranges::includes(all, outer_gaps));
    EXPECT_GE(outer_gaps.size(), 6u) << "also between larger blocks";
}

TEST(Generator, TransposesAndSpreadsStridedTensors) {
    int transposed = 0, spread = 0, plain = 0, of = 0;
    for (const Case& c : generated("laid_out")) {
        const TensorSpec& out = field(c, "out");
        EXPECT_FALSE(repeats(out)) << "two elements of an output are never one: " << c.line();
        if (out.stride.empty() || out.shape.size() < 2 || std::ranges::min(out.shape) < 2) continue;
        ++of;
        const bool even = std::ranges::all_of(out.stride, [](std::int64_t s) { return s % 2 == 0; });
        const std::int64_t least = *std::ranges::min_element(out.stride);
        EXPECT_EQ(least, even ? 2 : 1) << c.line();
        spread += even ? 1 : 0;
        transposed += out.stride.front() == least && out.shape.front() > 1 ? 1 : 0;
        plain += out.stride.back() == least ? 1 : 0;
        std::vector<std::size_t> order(out.shape.size());
        std::iota(order.rbegin(), order.rend(), 0);
        if (out.stride.front() == least && out.stride.front() != out.stride.back())
            std::ranges::reverse(order);
        for (const std::int64_t gap : gaps(out, order, least))
            EXPECT_TRUE(gap >= 0 && gap <= 8 * least) << c.line();
    }
    ASSERT_GT(of, 100);
    expect_both(transposed, static_cast<std::size_t>(of), "transposed");
    expect_both(spread, static_cast<std::size_t>(of), "every other element");
    expect_both(plain, static_cast<std::size_t>(of), "in order");
}

TEST(Generator, RepeatsAnyLeadingAxisOfInputsThatMay) {
    const auto cases = generated("laid_out");
    for (const char* name : {"inner", "strided"}) {
        std::set<std::size_t> axes;
        int repeated = 0;
        for (const Case& c : cases) {
            const TensorSpec& spec = field(c, name);
            if (!repeats(spec)) continue;
            ++repeated;
            EXPECT_NE(spec.stride.back(), 0);
            EXPECT_EQ(std::ranges::count(spec.stride, 0), 1);
            axes.insert(static_cast<std::size_t>(std::ranges::find(spec.stride, 0) - spec.stride.begin()));
        }
        EXPECT_THAT(axes, ElementsAre(0, 1, 2)) << name;
        expect_both(repeated, cases.size(), name);
    }
    for (const Case& c : cases) {
        for (const char* name : {"x", "dense", "packed", "out"})
            EXPECT_FALSE(repeats(field(c, name))) << c.line();
    }
}

// Two cases of five are as production calls are.
TEST(Generator, DrawsTidyCases) {
    const auto cases = generated("laid_out");
    const int tidy = cases_that(cases, [](const Case& c) {
        return std::ranges::all_of(c.tensors, [](const TensorSpec& t) {
            return t.offset == 0 && t.stride.empty() && t.shape.back() % 16 == 0;
        });
    });
    EXPECT_GT(tidy, kCases / 4);
    EXPECT_LT(tidy, kCases * 3 / 4);
}

// ---- operands that broadcast, and memory that fields share ----

struct Spread {
    static constexpr std::string_view kName = "spread";
    Tensor x{}, gate{}, shift{}, out{}, other{};

    static const Contract& contract() {
        using Op = Spread;
        static const Contract c = Describe<Op>(std::string(kName), "nothing")
                                      .in("x", &Op::x, "... dim", kFloat, "rows")
                                      .layout(Layout::dense)
                                      .in("gate", &Op::gate, "~... dim", kFloat, "broadcasts")
                                      .layout(Layout::dense)
                                      .in("shift", &Op::shift, "~... dim", kFloat, "broadcasts")
                                      .layout(Layout::dense)
                                      .optional()
                                      .out("out", &Op::out, "... dim", kFloat, "rows")
                                      .layout(Layout::dense)
                                      .in_place_of("x")
                                      .out("other", &Op::other, "... dim", kFloat, "rows")
                                      .layout(Layout::dense)
                                      .optional()
                                      .in_place_of("x")
                                      .sizes("dim", {5, 16})
                                      .tolerance("none")
                                      .source("nothing");
        return c;
    }
};
const RegisterReference<Spread> kSpread{nothing<Spread>};

TEST(Generator, DrawsEveryShapeThatBroadcasts) {
    std::map<std::string, int> found;
    std::set<std::int64_t> frames;
    std::set<std::size_t> prefixes;
    for (const Case& c : generated("spread")) {
        const auto &x = field(c, "x").shape, &gate = field(c, "gate").shape;
        if (x.size() < 3) continue;  // two leading axes at least
        const bool one = gate.back() == 1;
        ++found[one ? "one element a row" : "whole rows"];
        if (gate == x) ++found["as x"];
        if (gate.size() == 1) ++found[one ? "one element" : "one row"];
        if (gate.size() == x.size() && one && x.back() > 1) ++found["an element for each row"];
        if (gate.size() == x.size() && gate[0] == 1 && x[0] > 1 && gate[1] == x[1])
            ++found["the first axis one"];
        if (gate.size() == x.size() && std::ranges::count(gate, 1) > std::ranges::count(x, 1) + (one ? 1 : 0))
            ++found["ones"];
        if (gate.size() > 1 && gate.size() < x.size() && gate[0] == x[0] && !one)
            ++found["a prefix"], prefixes.insert(gate.size() - 1);
        if (gate.size() == x.size() + 1) ++found["frames"], frames.insert(gate[gate.size() - 3]);
    }
    for (const char* what :
         {"one element a row", "whole rows", "an element for each row", "the first axis one", "as x",
          "one element", "one row", "ones", "a prefix", "frames"})
        EXPECT_GT(found[what], 10) << what;
    EXPECT_THAT(prefixes, ElementsAre(1, 2));
    EXPECT_THAT(frames, ElementsAre(1, 2, 3, 4));
}

TEST(Generator, CutsAllOperandsOfACaseIntoAsManyFrames) {
    std::set<std::int64_t> several;
    int both = 0;
    for (const Case& c : generated("spread")) {
        const auto &x = field(c, "x").shape, &gate = field(c, "gate").shape, &shift = field(c, "shift").shape;
        if (gate.size() != x.size() + 1) continue;
        const std::int64_t frames = gate[gate.size() - 3];
        EXPECT_EQ(gate[gate.size() - 2], 1);
        EXPECT_EQ(x[x.size() - 2] % frames, 0);
        several.insert(frames);
        if (shift.size() != x.size() + 1) continue;
        EXPECT_EQ(shift[shift.size() - 3], frames);
        ++both;
    }
    EXPECT_GT(both, 10);
    EXPECT_GE(several.size(), 5u);
    EXPECT_LE(*several.rbegin(), 8);
}

TEST(Generator, LetsAnOutputTakeTheMemoryOfAnInputOfItsShape) {
    const auto cases = generated("spread");
    int out = 0, other = 0;
    for (const Case& c : cases) {
        const int x = c.contract().find_field("x");
        out += field(c, "out").alias == x ? 1 : 0;
        other += field(c, "other").alias == x ? 1 : 0;
        EXPECT_FALSE(field(c, "out").alias == x && field(c, "other").alias == x) << c.line();
        for (const char* name : {"out", "other"}) {
            const TensorSpec& spec = field(c, name);
            if (spec.alias < 0) continue;
            EXPECT_EQ(spec.shape, field(c, "x").shape);
            EXPECT_EQ(spec.dtype, field(c, "x").dtype);
            EXPECT_EQ(spec.offset, field(c, "x").offset);
        }
    }
    expect_both(out, cases.size(), "out");
    expect_both(other, cases.size(), "other");
}

// ---- relations ----

struct Related {
    static constexpr std::string_view kName = "related";
    Tensor x{}, like{}, scale{}, beside{}, left{}, right{}, only{}, out{};

    static const Contract& contract() {
        using Op = Related;
        static const Contract c =
            Describe<Op>(std::string(kName), "nothing")
                .in("x", &Op::x, "rows dim", kFloat | kNarrow, "rows")
                .in("like", &Op::like, "rows dim", kFloat | kNarrow, "of x's dtype")
                .like("x")
                .in("scale", &Op::scale, "rows", DType::fp32, "of narrow x")
                .optional()
                .scale_of("x")
                .in("beside", &Op::beside, "rows size", kFloat | kIndex, "of a dtype by x's")
                .optional()
                .dtype_beside("x",
                              {{DType::fp32, {DType::int32, DType::int64}}, {DType::bf16, {DType::fp16}}})
                .sizes_by_dtype("size", {{DType::int32, 3}, {DType::int64, 5}, {DType::fp16, 7}})
                .in("left", &Op::left, "rows", kFloat, "or right")
                .optional()
                .in("right", &Op::right, "rows", kFloat, "or left")
                .optional()
                .excludes("left")
                .in("only", &Op::only, "rows", kFloat, "beside left")
                .optional()
                .needs("left")
                .out("out", &Op::out, "rows dim", kFloat, "rows")
                .sizes("rows", {2, 4})
                .sizes("dim", {2, 16})
                .tolerance("none")
                .source("nothing");
        return c;
    }
};
const RegisterReference<Related> kRelated{nothing<Related>};

TEST(Generator, DrawsWhatRelationsAllowAndAllOfIt) {
    std::map<std::string, int> found;
    std::set<std::pair<DType, DType>> beside;
    std::set<DType> scaled, alike;
    const auto cases = generated("related");
    for (const Case& c : cases) {
        const DType x = field(c, "x").dtype;
        EXPECT_EQ(field(c, "like").dtype, x);
        alike.insert(x);
        if (field(c, "like").stride.empty() && field(c, "like").offset == 0) ++found["dense"];
        if (field(c, "like").offset != 0) ++found["offset"];
        if (field(c, "like").offset != 0 && bits(x) == 8) ++found["offset of bytes"];
        if (field(c, "scale").present) scaled.insert(x);
        if (field(c, "beside").present) beside.insert({x, field(c, "beside").dtype});
        const bool left = field(c, "left").present, right = field(c, "right").present;
        EXPECT_FALSE(left && right);
        ++found[left ? "left" : right ? "right" : "neither"];
        EXPECT_TRUE(left || !field(c, "only").present);
        if (left) ++found[field(c, "only").present ? "left and only" : "left alone"];
    }
    EXPECT_EQ(alike.size(), 7u);
    EXPECT_EQ(scaled, (std::set<DType>{DType::fp8_e4m3, DType::fp8_e5m2, DType::int8, DType::fp4_e2m1}));
    const std::set<std::pair<DType, DType>> allowed = {
        {DType::fp32, DType::int32}, {DType::fp32, DType::int64}, {DType::bf16, DType::fp16}};
    EXPECT_EQ(beside, allowed);
    for (const auto& [what, count] : found) expect_both(count, cases.size(), what.c_str());
    EXPECT_EQ(found.size(), 8u);
}

}  // namespace
}  // namespace weft::test
