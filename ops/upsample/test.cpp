// upsample: what generated cases don't say.
#include <gmock/gmock.h>

#include "ops/upsample/upsample.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::configuration;
using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

TEST(Upsample, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("upsample x=bf16[2,3,5,8] out=bf16[2,6,5,8] width_scale=2"),
                HasSubstr("upsample.out: expected"));
    EXPECT_THAT(
        rejection("upsample x=bf16[2,3,5,8] out=bf16[2,6,10,2] width_scale=2 height_scale=2 shuffle=3"),
        HasSubstr("upsample"));
    EXPECT_THAT(
        rejection("upsample x=bf16[2,3,5,9] out=bf16[2,6,10,3] width_scale=2 height_scale=2 shuffle=3"),
        HasSubstr("upsample.shuffle: expected a divisor of the 4 elements"));
}

TEST(Upsample, RepeatsHeadsAndShufflesPixels) {
    for (const Device device : test::host_devices()) {
        HostTensor heads(DType::fp16, {1, 1, 2, 2}, {1, 2, 3, 4}), repeated(DType::fp16, {1, 1, 6, 2});
        run(Upsample{.x = heads.on(device), .out = repeated.on(device), .width_scale = 3});
        const double each[] = {1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4};
        for (int i = 0; i < 12; ++i) EXPECT_EQ(repeated[i], each[i]);
        HostTensor pixels(DType::fp32, {1, 1, 1, 8}, {0, 1, 2, 3, 10, 11, 12, 13}),
            larger(DType::fp32, {1, 2, 2, 2});
        run(Upsample{.x = pixels.on(device),
                     .out = larger.on(device),
                     .height_scale = 2,
                     .width_scale = 2,
                     .shuffle = 4});
        const double shuffled[] = {0, 10, 1, 11, 2, 12, 3, 13};
        for (int i = 0; i < 8; ++i) EXPECT_EQ(larger[i], shuffled[i]);
        // Two channels for four elements: each serves two neighbours along the width.
        HostTensor two(DType::fp32, {1, 1, 1, 2}, {5, 7}), four(DType::fp32, {1, 2, 2, 1}, {0, 0, 0, 100});
        run(Upsample{.x = two.on(device),
                     .residual = four.on(device),
                     .out = four.on(device),
                     .height_scale = 2,
                     .width_scale = 2,
                     .shuffle = 2});
        const double between[] = {5, 5, 7, 107};
        for (int i = 0; i < 4; ++i) EXPECT_EQ(four[i], between[i]);
    }
}

TEST(Upsample, PolicyMovesWholeChannelsByVectors) {
    if (configuration("upsample x=bf16[1,1,1,8] out=bf16[1,1,1,8]").empty()) GTEST_SKIP() << "no kernels";
    EXPECT_THAT(
        configuration("upsample x=bf16[4,60,104,96] out=bf16[4,120,208,96] height_scale=2 width_scale=2"),
        HasSubstr("vectors: "));
    EXPECT_THAT(
        configuration("upsample x=bf16[4,60,104,95] out=bf16[4,120,208,95] height_scale=2 width_scale=2"),
        HasSubstr("elements: "));
}

}  // namespace
}  // namespace weft
