// Where the rows of operands lie that row kernels read (kit/row_operand.cuh), against the map that the host has.
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "kit/row_launch.h"

namespace weft::inline WEFT_TARGET {
namespace {

// An operand's row of x by the kernel's numbers and by weft/row_map.h, at the first, the last and some in between.
void expect_places(const Tensor& operand, const Tensor& x) {
    kit::RowShape shape;
    kit::RowPlaces places;
    kit::RowOperand in, beside;
    kit::bind_rows(shape, places, x, {{&x, &in}, {&operand, &beside}});
    const std::int64_t rows = row_count(x);
    for (const std::int64_t row :
         {std::int64_t{0}, std::int64_t{1}, rows / 3, rows / 2 - 1, rows / 2 + 1, rows - 2, rows - 1}) {
        const bool may_be_few = shape.by == kit::RowsBy::strides && rows >> 31 == 0;
        for (int few = 0; few <= (may_be_few ? 1 : 0); ++few) {
            const kit::RunRow at(shape, row, &places, few == 1);
            EXPECT_EQ(at.offset(shape, in), map_rows(x, x)->offset(row)) << "x's row " << row;
            EXPECT_EQ(at.plain_offset(shape, in), map_rows(x, x)->offset(row)) << "x's row " << row;
            EXPECT_EQ(at.offset(shape, beside), map_rows(operand, x)->offset(row)) << "row " << row;
        }
    }
}

Tensor view(std::vector<std::int64_t> shape, std::vector<std::int64_t> stride) {
    static float nothing = 0;  // no element is read
    return {&nothing, DType::fp32, std::span<const std::int64_t>(shape),
            std::span<const std::int64_t>(stride)};
}

TEST(RowPlaces, FewRowsLieWhereTheMapSays) {
    expect_places(view({6, 1, 8}, {8, 8, 1}), view({6, 10, 8}, {100, 8, 1}));
    expect_places(view({6, 1, 5, 8}, {40, 40, 8, 1}), view({6, 10, 5, 8}, {1000, 8, 90, 1}));
}

TEST(RowPlaces, StridesOf32BitsAndMore) {
    constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;
    for (const std::int64_t stride : {kMost, kMost + 1, -kMost - 1, -kMost - 2, 3 * kMost}) {
        expect_places(view({5, 8}, {stride, 1}), view({5, 8}, {8, 1}));
        expect_places(view({5, 3, 8}, {stride, 8, 1}), view({5, 3, 8}, {24, 8, 1}));
        expect_places(view({5, 3, 8}, {24, stride, 1}), view({5, 3, 8}, {24, 8, 1}));
    }
    expect_places(view({kMost + 7, 8}, {kMost + 1, 1}), view({kMost + 7, 8}, {8, 1}));
}

TEST(RowPlaces, SoDoMoreThan32BitsOfThem) {
    constexpr std::int64_t kMany = std::int64_t{1} << 31;
    expect_places(view({3, 1, 8}, {8, 8, 1}), view({3, kMany / 2, 8}, {8 * kMany, 8, 1}));
    expect_places(view({3, 1, 8}, {8, 8, 1}), view({3, 2 * kMany + 5, 8}, {32 * kMany, 8, 1}));
    expect_places(view({3, 1, 7, 8}, {56, 56, 8, 1}), view({3, kMany, 7, 8}, {80 * kMany, 8, 9, 1}));
    expect_places(view({1, 1, 8}, {8, 8, 1}), view({kMany, 3, 8}, {24, 8, 1}));
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
