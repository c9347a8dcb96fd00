// Row maps: which row of an operand belongs to which row of x, for every shape that broadcasts, against plain loops.
#include "weft/row_map.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft {
namespace {

Tensor view(std::vector<std::int64_t> shape, std::vector<std::int64_t> stride = {}) {
    return stride.empty() ? Tensor(nullptr, DType::bf16, shape) : Tensor(nullptr, DType::bf16, shape, stride);
}

// Where the operand's row lies, by x's indices [b, s].
template <class Expected>
void expect_map(const Tensor& operand, const Tensor& x, Expected expected) {
    const auto map = map_rows(operand, x);
    ASSERT_TRUE(map) << to_string(operand) << " beside " << to_string(x);
    for (std::int64_t b = 0; b < x.shape[0]; ++b) {
        for (std::int64_t s = 0; s < x.shape[1]; ++s) {
            EXPECT_EQ(map->offset(b * x.shape[1] + s), expected(b, s))
                << to_string(operand) << " " << b << " " << s;
        }
    }
}

TEST(RowMap, TakesEveryShapeThatBroadcasts) {
    const Tensor x = view({2, 12, 64});
    expect_map(view({64}), x, [](auto, auto) { return 0; });
    expect_map(view({1, 1, 64}), x, [](auto, auto) { return 0; });
    expect_map(view({2, 64}), x, [](auto b, auto) { return b * 64; });
    expect_map(view({2, 1, 64}), x, [](auto b, auto) { return b * 64; });
    expect_map(view({1, 12, 64}), x, [](auto, auto s) { return s * 64; });
    expect_map(view({2, 12, 64}), x, [](auto b, auto s) { return (b * 12 + s) * 64; });
    expect_map(view({2, 3, 1, 64}), x, [](auto b, auto s) { return (b * 3 + s / 4) * 64; });
    expect_map(view({2, 1, 1, 64}), x, [](auto b, auto) { return b * 64; });
    // chunk(6) of [B, 6·D], and a transposed batch
    expect_map(view({2, 64}, {384, 1}), x, [](auto b, auto) { return b * 384; });
    expect_map(view({2, 12, 64}, {64, 128, 1}), x, [](auto b, auto s) { return b * 64 + s * 128; });
}

// Of one axis there are no rows to cut into frames.
TEST(RowMap, ARowHasNoFrames) {
    EXPECT_EQ(frames(view({1, 64}), view({64})), 0);
    EXPECT_EQ(frames(view({3, 1, 64}), view({12, 64})), 3);
    EXPECT_EQ(frames(view({3, 2, 64}), view({12, 64})), 0);
}

TEST(RowMap, OneElementMayStandForARow) {
    const Tensor x = view({2, 12, 64});
    for (const Tensor& operand : {view({1}), view({2, 12, 1}), view({2, 1, 1}), view({})}) {
        ASSERT_TRUE(map_rows(operand, x)) << to_string(operand);
        EXPECT_TRUE(map_rows(operand, x)->single) << to_string(operand);
    }
    expect_map(view({2, 12, 1}), x, [](auto b, auto s) { return b * 12 + s; });
    EXPECT_FALSE(map_rows(view({12, 1}), view({12, 1}))->single);  // rows of one element are whole
}

TEST(RowMap, RefusesOtherShapes) {
    const Tensor x = view({2, 12, 64});
    for (const Tensor& operand :
         {view({32}), view({3, 64}), view({12, 64}), view({2, 4, 64}), view({2, 5, 1, 64}),
          view({2, 12, 2, 64}), view({2, 12, 64, 1}), view({2, 4, 3, 64})}) {
        EXPECT_FALSE(map_rows(operand, x)) << to_string(operand);
    }
}

// The rows of folded maps are those of the maps before.
TEST(RowMap, FoldsToTheFewestAxes) {
    const Tensor x = view({2, 12, 8, 64});
    const auto expect_axes = [&](int axes, std::vector<Tensor> operands) {
        std::vector<RowMap> maps, before;
        std::vector<RowMap*> all;
        for (const Tensor& operand : operands) maps.push_back(*map_rows(operand, x));
        before = maps;
        for (RowMap& map : maps) all.push_back(&map);
        ASSERT_TRUE(fold_maps(all));
        for (std::size_t i = 0; i < maps.size(); ++i) {
            EXPECT_EQ(maps[i].axes, axes) << to_string(operands[i]);
            for (std::int64_t row = 0; row < row_count(x); ++row)
                ASSERT_EQ(maps[i].offset(row), before[i].offset(row)) << to_string(operands[i]) << " " << row;
        }
    };
    expect_axes(1, {x, view({64})});
    expect_axes(2, {x, view({2, 64})});
    expect_axes(3, {x, view({2, 1, 8, 64})});
    expect_axes(2, {x, view({2, 12, 4, 1, 64})});
    expect_axes(3, {x, view({2, 64}), view({2, 12, 4, 1, 64})});
    expect_axes(3, {view({2, 12, 8, 64}, {6144, 64, 768, 1}), x});  // [B, H, S, D] as a view of [B, S, H, D]
    std::vector<RowMap> maps = {*map_rows(view({2, 12, 4, 1, 64}), x), *map_rows(view({2, 12, 2, 1, 64}), x)};
    RowMap* all[] = {&maps[0], &maps[1]};
    EXPECT_FALSE(fold_maps(all)) << "two numbers of frames";
}

TEST(RowMap, ABroadcastOperandCountsItsDistinctElements) {
    EXPECT_EQ(view({2, 12, 64}, {0, 0, 1}).distinct(), 64);
    EXPECT_EQ(view({2, 12, 64}, {64, 0, 1}).distinct(), 128);
    EXPECT_EQ(view({0, 64}, {0, 1}).distinct(), 0);
}

}  // namespace
}  // namespace weft
