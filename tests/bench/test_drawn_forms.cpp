// Sampled cases of other forms: images with their channels last, tables of half a head, operands that broadcast, and
// what relations leave out.
#include <gmock/gmock.h>

#include <set>
#include <utility>

#include "tests/bench/drawn.h"

namespace weft::test {
namespace {

using testing::ElementsAre;

struct UsedForms {
    static constexpr std::string_view kName = "used_forms";
    Tensor image{}, left{}, right{}, only{}, gate{}, beside{}, pairs{}, out{};

    static const Contract& contract() {
        using Op = UsedForms;
        static const Contract c =
            Describe<Op>(std::string(kName), "nothing")
                .in("image", &Op::image, "batch channels height width", kHalf, "any strides")
                .layout(Layout::strided)
                .in("left", &Op::left, "height left_width", kHalf, "or right")
                .optional()
                .layout(Layout::strided)
                .in("right", &Op::right, "height width", kHalf, "or left")
                .optional()
                .layout(Layout::dense)
                .excludes("left")
                .in("only", &Op::only, "height", kHalf, "beside left")
                .optional()
                .needs("left")
                .like("image")
                .in("gate", &Op::gate, "head_dim half", kFloat, "sizes that hang together")
                .layout(Layout::dense)
                .in("beside", &Op::beside, "height size", kFloat | kIndex, "of a dtype by image's")
                .optional()
                .dtype_beside("image", {{DType::bf16, {DType::int32, DType::int64}}})
                .sizes_by_dtype("size", {{DType::int32, 3}, {DType::int64, 5}})
                .in("pairs", &Op::pairs, "height width", DType::fp4_e2m1, "packed")
                .layout(Layout::strided)
                .out("out", &Op::out, "batch channels height width", kHalf, "dense")
                .layout(Layout::dense)
                .sizes("height", {4, 8})
                .sizes("width", {4, 8})
                .sizes("left_width", {2, 4})
                .tolerance("none")
                .source("nothing");
        return c;
    }
};
const RegisterReference<UsedForms> kUsedForms{nothing<UsedForms>};

TEST(DrawnForms, HaveChannelsLastAndTransposedMatrices) {
    const auto cases = drawn("used_forms");
    int last = 0, transposed = 0, of = 0;
    for (const Case& c : cases) {
        const TensorSpec &image = field(c, "image"), &left = field(c, "left");
        EXPECT_TRUE(field(c, "out").stride.empty());
        EXPECT_TRUE(field(c, "pairs").stride.empty() && field(c, "pairs").offset == 0);
        if (!image.stride.empty() && image.stride[1] == 1 && image.shape[1] > 1) {
            ++last;
            const std::int64_t channels = image.shape[1], width = image.shape[3], height = image.shape[2];
            EXPECT_EQ(image.stride,
                      (std::vector<std::int64_t>{height * width * channels, 1, width * channels, channels}));
        }
        if (!left.present) continue;
        ++of;
        transposed += left.stride == std::vector<std::int64_t>{1, left.shape[0]} ? 1 : 0;
    }
    expect_both(last, cases.size(), "channels last", kOneIn);
    EXPECT_GT(transposed, 0);
    EXPECT_LT(transposed, of / 2);
}

TEST(DrawnForms, KeepRelationsAndReachAllTheyAllow) {
    std::set<std::pair<DType, DType>> beside;
    std::set<std::int64_t> sizes;
    int left = 0, right = 0, only = 0, neither = 0;
    const auto cases = drawn("used_forms");
    EXPECT_EQ(cases.size(), static_cast<std::size_t>(kDrawn));
    for (const Case& c : cases) {
        const bool has_left = field(c, "left").present, has_right = field(c, "right").present;
        EXPECT_FALSE(has_left && has_right);
        left += has_left ? 1 : 0, right += has_right ? 1 : 0, neither += has_left || has_right ? 0 : 1;
        if (field(c, "only").present) {
            ++only;
            EXPECT_TRUE(has_left);
            EXPECT_EQ(field(c, "only").dtype, field(c, "image").dtype);
        }
        if (field(c, "beside").present) {
            beside.insert({field(c, "image").dtype, field(c, "beside").dtype});
            sizes.insert(field(c, "beside").shape[1]);
        }
    }
    for (const auto& [count, what] :
         {std::pair{left, "left"}, {right, "right"}, {only, "only"}, {neither, "neither"}})
        expect_both(count, cases.size(), what, kOneIn);
    EXPECT_EQ(beside,
              (std::set<std::pair<DType, DType>>{{DType::bf16, DType::int32}, {DType::bf16, DType::int64}}));
    EXPECT_THAT(sizes, ElementsAre(3, 5));
}

TEST(DrawnForms, HaveRotaryTablesOfHalfAHead) {
    const auto cases = drawn("used_forms");
    const int halves = cases_that(
        cases, [](const Case& c) { return field(c, "gate").shape[0] == 2 * field(c, "gate").shape[1]; });
    EXPECT_GT(halves, kDrawn / 2);
    EXPECT_LT(halves, kDrawn * 95 / 100) << "where all of it turns";
}

// ---- operands that broadcast, and what is not there ----

struct UsedSpread {
    static constexpr std::string_view kName = "used_spread";
    Tensor x{}, gate{}, more{}, both{}, out{};

    static const Contract& contract() {
        using Op = UsedSpread;
        static const Contract c = Describe<Op>(std::string(kName), "nothing")
                                      .in("x", &Op::x, "... dim", kHalf, "rows")
                                      .in("gate", &Op::gate, "~... dim", kHalf, "broadcasts")
                                      .layout(Layout::dense)
                                      .in("more", &Op::more, "... added", kHalf, "columns more")
                                      .optional()
                                      .layout(Layout::dense)
                                      .out("both", &Op::both, "... dim+added", kHalf, "all columns")
                                      .layout(Layout::dense)
                                      .out("out", &Op::out, "... dim", kHalf, "rows")
                                      .tolerance("none")
                                      .source("nothing");
        return c;
    }
};
const RegisterReference<UsedSpread> kUsedSpread{nothing<UsedSpread>};

TEST(DrawnForms, BroadcastAsModelsDo) {
    int one = 0, batch = 0, batch_of_one = 0, all = 0, deep = 0, flat_one = 0;
    for (const Case& c : drawn("used_spread")) {
        const auto &x = field(c, "x").shape, &gate = field(c, "gate").shape;
        if (x.size() == 2) {
            EXPECT_TRUE(gate == x || gate == std::vector<std::int64_t>{x.back()});
            flat_one += gate.size() == 1 ? 1 : 0;
            continue;
        }
        ++deep;
        if (gate == x) ++all;
        if (gate == std::vector<std::int64_t>{x[2]}) ++one;
        if (gate == std::vector<std::int64_t>{x[0], x[2]}) ++batch;
        if (gate == std::vector<std::int64_t>{x[0], 1, x[2]}) ++batch_of_one;
    }
    EXPECT_GE(all + one + batch + batch_of_one, deep);
    for (const int count : {all, one, batch, batch_of_one}) EXPECT_GT(count, deep / 20);
    expect_both(flat_one, kDrawn, "one row for all", kOneIn);
}

TEST(DrawnForms, LackWhatAConcatenationLacks) {
    int with = 0;
    const auto cases = drawn("used_spread");
    for (const Case& c : cases) {
        const std::int64_t added = field(c, "both").shape.back() - field(c, "x").shape.back();
        with += field(c, "more").present ? 1 : 0;
        if (field(c, "more").present) {
            EXPECT_EQ(added, field(c, "more").shape.back());
        }
        if (!field(c, "more").present) {
            EXPECT_EQ(added, 0);
        }
        if (field(c, "more").present) {
            EXPECT_GT(added, 0);
        }
    }
    expect_both(with, cases.size(), "more", kOneIn);
}

}  // namespace
}  // namespace weft::test
