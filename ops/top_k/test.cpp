// top_k: what generated cases don't say.
#include <gmock/gmock.h>

#include <cmath>

#include "ops/top_k/top_k.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

TEST(TopK, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("top_k scores=fp32[4,8] values=fp32[4,9] indices=int32[4,9] k=9"),
                HasSubstr("top_k.k: expected at most the 8 elements to choose from, got 9"));
    EXPECT_THAT(rejection("top_k scores=fp32[4,8] values=fp32[4,2] indices=int32[4,2] k=2 groups=3"),
                HasSubstr("top_k.groups: expected a divisor of n=8, got 3"));
    EXPECT_THAT(
        rejection("top_k scores=fp32[4,8] values=fp32[4,2] indices=int32[4,2] k=2 groups=2 top_groups=3"),
        HasSubstr("top_k.top_groups: expected at most groups=2, got 3"));
}

TEST(TopK, TiesGoToTheLowerIndexAndNanIsFirst) {
    HostTensor scores(DType::fp32, {1, 7}, {1, 3, std::nan(""), 3, -0.0, 0, 3});
    for (const Device device : test::host_devices()) {
        HostTensor values(DType::fp32, {1, 6}), indices(DType::int64, {1, 6});
        run(TopK{
            .scores = scores.on(device), .values = values.on(device), .indices = indices.on(device), .k = 6});
        const double expected[] = {2, 1, 3, 6, 0, 4};
        for (int i = 0; i < 6; ++i) EXPECT_EQ(indices[i], expected[i]) << i;
        EXPECT_TRUE(std::isnan(values[0]));
        EXPECT_TRUE(std::signbit(values[5]));  // the score itself
    }
}

TEST(TopK, ChoosesAmongTheBestGroupsByTheBiasedScore) {
    // Groups {5, 0}, {4, 4}, {3, 1}: by their largest element the first is best, by the sum of two the second.
    HostTensor scores(DType::fp32, {1, 6}, {5, 0, 4, 4, 3, 1}), bias(DType::fp32, {6}, {0, 0, 0, 0.5, 0, 0});
    for (const Device device : test::host_devices()) {
        HostTensor values(DType::fp32, {1, 2}), indices(DType::int32, {1, 2});
        TopK op{.scores = scores.on(device),
                .values = values.on(device),
                .indices = indices.on(device),
                .k = 2,
                .groups = 3};
        run(op);
        EXPECT_EQ(indices[0], 0);
        EXPECT_EQ(indices[1], 1);
        op.group_top = 2;
        op.bias = bias.on(device);
        run(op);
        EXPECT_EQ(indices[0], 3);
        EXPECT_EQ(values[0], 4);  // without the bias
        EXPECT_EQ(indices[1], 2);
    }
}

TEST(TopK, LongRowsAreTakenPieceByPiece) {
    constexpr int kN = 9001;
    HostTensor scores(DType::fp32, {1, kN});
    for (int i = 0; i < kN; ++i) scores.set(i, i * 7919 % kN);  // every number once
    for (const Device device : test::host_devices()) {
        HostTensor values(DType::fp32, {1, 300}), indices(DType::int32, {1, 300});
        run(TopK{.scores = scores.on(device),
                 .values = values.on(device),
                 .indices = indices.on(device),
                 .k = 300});
        for (int i = 0; i < 300; ++i) {
            ASSERT_EQ(values[i], kN - 1 - i);
            ASSERT_EQ(scores[static_cast<std::int64_t>(indices[i])], values[i]);
        }
    }
}

}  // namespace
}  // namespace weft
