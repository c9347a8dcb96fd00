// Views: strides, folding, slices, text.
#include <gmock/gmock.h>

#include "weft/error.h"
#include "weft/tensor.h"

namespace weft {
namespace {

Tensor strided(std::vector<std::int64_t> shape, std::vector<std::int64_t> stride) {
    return Tensor(nullptr, DType::bf16, std::span<const std::int64_t>(shape),
                  std::span<const std::int64_t>(stride));
}

TEST(Tensors, DefaultIsAbsent) {
    const Tensor t;
    EXPECT_FALSE(t);
    EXPECT_EQ(t.numel(), 0);
    EXPECT_EQ(to_string(t), "absent");
}

TEST(Tensors, DenseStridesAndSizes) {
    const Tensor t(nullptr, DType::fp32, {2, 3, 4});
    EXPECT_TRUE(t);
    EXPECT_EQ(t.numel(), 24);
    EXPECT_EQ(t.span(), 24);
    EXPECT_EQ(t.stride[0], 12);
    EXPECT_EQ(t.dim(-1), 4);
    EXPECT_TRUE(t.is_dense());
    EXPECT_EQ(to_string(t), "fp32[2,3,4]");
}

TEST(Tensors, StridesThatMatterArePrinted) {
    EXPECT_EQ(to_string(strided({2, 4}, {8, 1})), "bf16[2,4]{8,1}");
    EXPECT_EQ(to_string(strided({1, 4}, {99, 1})), "bf16[1,4]");  // the stride of one element says nothing
    EXPECT_EQ(strided({2, 4}, {8, 1}).span(), 12);
    EXPECT_EQ(strided({0, 4}, {8, 1}).span(), 0);
    EXPECT_TRUE(strided({0, 4}, {8, 1}).is_dense());
}

TEST(Tensors, RowsFoldWhereOneStrideServes) {
    const auto rows = fold_rows(strided({2, 3, 4}, {24, 8, 1}));
    ASSERT_TRUE(rows.has_value());
    EXPECT_EQ(rows->rows, 6);
    EXPECT_EQ(rows->dim, 4);
    EXPECT_EQ(rows->stride, 8);
    EXPECT_FALSE(fold_rows(strided({2, 3, 4}, {25, 8, 1})));
    EXPECT_FALSE(fold_rows(strided({2, 4}, {8, 2})));
    EXPECT_TRUE(fold_rows(strided({2, 1, 4}, {8, 77, 1})));
    EXPECT_EQ(fold_rows(strided({4}, {1}))->rows, 1);
    EXPECT_EQ(fold_rows(strided({0, 3, 4}, {7, 5, 1}))->rows, 0);
    EXPECT_FALSE(fold_rows(Tensor(nullptr, DType::fp32, std::span<const std::int64_t>())));
}

TEST(Tensors, SlicesMoveTheDataAndKeepStrides) {
    float memory[24];
    const Tensor t(memory, DType::fp32, {2, 3, 4});
    const Tensor part = t.slice(1, 1, 3);
    EXPECT_EQ(part.data, memory + 4);
    EXPECT_EQ(to_string(part), "fp32[2,2,4]{12,4,1}");
    EXPECT_EQ(t.slice(-1, 4, 4).numel(), 0);
    EXPECT_THROW(t.slice(1, 2, 4), Error);
    EXPECT_THROW(t.slice(3, 0, 1), Error);
}

TEST(Tensors, ReshapingNeedsTheSameNumberOfDenseElements) {
    const Tensor t(nullptr, DType::fp32, {2, 3, 4});
    EXPECT_EQ(to_string(t.reshape({6, 4})), "fp32[6,4]");
    EXPECT_THROW(t.reshape({5, 4}), Error);
    EXPECT_THROW(strided({2, 4}, {8, 1}).reshape({8}), Error);
}

TEST(Tensors, PackedPairsAreCutBetweenBytes) {
    char memory[8];
    const Tensor t(memory, DType::fp4_e2m1, {2, 8});
    EXPECT_EQ(t.slice(1, 2, 8).data, memory + 1);
    EXPECT_EQ(t.slice(0, 1, 2).data, memory + 4);
    EXPECT_THROW(t.slice(1, 3, 8), Error);
    EXPECT_THROW(t.at(1), Error);
}

TEST(Tensors, RankIsLimited) {
    EXPECT_THROW(Tensor(nullptr, DType::fp32, {1, 1, 1, 1, 1, 1, 1}), Error);
    EXPECT_THROW(strided({2, 2}, {1}), Error);
}

}  // namespace
}  // namespace weft
