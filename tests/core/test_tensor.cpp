// Views: strides, folding, slices, text.
#include <gmock/gmock.h>

#include "core/elements.h"
#include "weft/error.h"
#include "weft/narrow.h"
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
    EXPECT_EQ(t.slice(-3, 0, 1).data, memory);
    for (const int axis : {-4, 3}) EXPECT_THROW(t.slice(axis, 0, 1), Error) << axis;
    EXPECT_THROW(t.slice(1, 2, 4), Error);
    EXPECT_THROW(t.slice(1, -1, 2), Error);
    EXPECT_THROW(t.slice(1, 2, 1), Error);
}

// A thread of all six axes: each goes around for each step of the one before it.
TEST(Tensors, AreWalkedOverInOrder) {
    const Tensor t = strided({2, 1, 3, 2, 1, 2}, {1000, 77, 10, 300, 99, 3});
    std::vector<std::int64_t> found, expected;
    for_each_offset(t, [&](std::int64_t offset) { found.push_back(offset); });
    for (const std::int64_t a : {0, 1000})
        for (const std::int64_t b : {0, 10, 20})
            for (const std::int64_t c : {0, 300})
                for (const std::int64_t d : {0, 3}) expected.push_back(a + b + c + d);
    EXPECT_EQ(found, expected);
}

TEST(Tensors, OfSixAxesHaveASpan) {
    Tensor t = strided({2, 1, 3, 2, 1, 2}, {1000, 77, 10, 300, 99, 3});
    t.device = {DeviceType::emulator, 3};
    EXPECT_EQ(t.span(), 1000 + 20 + 300 + 3 + 1);
}

TEST(Tensors, WithoutElementsAreDense) {
    EXPECT_TRUE(strided({2, 0, 3}, {5, 7, 9}).is_dense());
    EXPECT_FALSE(strided({2, 1, 3}, {5, 7, 1}).is_dense());
    EXPECT_TRUE(Tensor(nullptr, DType::fp32, std::span<const std::int64_t>()).is_dense());
}

TEST(Tensors, LeadingAxesHaveOneStride) {
    EXPECT_EQ(leading_stride(strided({2, 3, 8}, {48, 16, 5}), 1), 16);
    EXPECT_EQ(leading_stride(strided({2, 3, 8, 4}, {48, 16, 5, 99}), 2), 16);
    EXPECT_EQ(leading_stride(strided({2, 3, 8}, {47, 16, 1}), 1), std::nullopt);
    EXPECT_EQ(leading_stride(strided({8}, {1}), 2), std::nullopt);
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

// An axis without elements leaves the others' strides to be counted.
TEST(Tensors, AreLimitedInSizeThoughTheyHaveNoElements) {
    constexpr std::int64_t kLong = std::int64_t{1} << 40;
    EXPECT_THROW(Tensor(nullptr, DType::fp32, {kLong, kLong}), Error);
    EXPECT_THROW(Tensor(nullptr, DType::fp32, {0, kLong, kLong}), Error);
}

}  // namespace
}  // namespace weft
