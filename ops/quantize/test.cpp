// quantize: what generated cases don't say.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "ops/quantize/quantize.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Quantize, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("quantize x=bf16[4,8] out=bf16[4,8]"), HasSubstr("quantize.out: expected dtype"));
    EXPECT_THAT(rejection("quantize x=fp8_e4m3[4,8] out=fp8_e4m3[4,8]"),
                HasSubstr("quantize.x: expected dtype"));
    EXPECT_THAT(rejection("quantize x=bf16[4,8] out=fp8_e4m3[4,7]"),
                HasSubstr("quantize.out: expected [...=(4), dim=8], got [4, 7]"));
    EXPECT_THAT(rejection("quantize x=bf16[4,8] out=fp8_e4m3[4,8] scale=fp32[1] tensor_scale=fp32[1]"),
                HasSubstr("quantize.tensor_scale: expected scale or tensor_scale, got both"));
    EXPECT_THAT(rejection("quantize x=bf16[4,8] out=fp8_e4m3[4,8] scale=fp32[1] token_scale=fp32[4]"),
                HasSubstr("quantize.token_scale: expected scale or token_scale, got both"));
    EXPECT_THAT(rejection("quantize x=bf16[4,8] out=fp8_e4m3[4,8] tensor_scale=fp32[1] token_scale=fp32[4]"),
                HasSubstr("quantize.token_scale: expected tensor_scale or token_scale, got both"));
    EXPECT_THAT(rejection("quantize x=bf16[4,8] out=fp8_e4m3[4,8] token_scale=fp32[5]"),
                HasSubstr("quantize.token_scale: expected [...=(4)], got [5]"));
    EXPECT_THAT(rejection("quantize x=bf16[4,8] out=fp8_e4m3[4,8] scale=bf16[1]"),
                HasSubstr("quantize.scale: expected dtype fp32"));
}

TEST(Quantize, SaturatesAndKeepsNan) {
    HostTensor x(DType::fp32, {1, 6}, {1000, -1000, kInfinity, -kInfinity, kNan, 448.1});
    for (const Device device : test::host_devices()) {
        HostTensor out(DType::fp8_e4m3, {1, 6});
        run(Quantize{.x = x.on(device), .out = out.on(device)});
        for (int i = 0; i < 6; ++i) {
            if (i == 4) {
                EXPECT_TRUE(std::isnan(out[i]));
            } else {
                EXPECT_EQ(out[i], i == 1 || i == 3 ? -448 : 448);
            }
        }
    }
}

TEST(Quantize, FoundScalesMeetTheLargestValueAndPassNanOver) {
    HostTensor x(DType::fp32, {3, 4}, {1, -7, kNan, 0, 0, 0, 0, 0, 3, 2, 1, 0});
    for (const Device device : test::host_devices()) {
        HostTensor out(DType::fp8_e4m3, {3, 4}), tensor_scale(DType::fp32, {1}),
            token_scale(DType::fp32, {3});
        run(Quantize{.x = x.on(device), .out = out.on(device), .tensor_scale = tensor_scale.on(device)});
        EXPECT_EQ(tensor_scale[0], static_cast<float>(7.0 / 448));
        EXPECT_EQ(out[1], -448);
        EXPECT_TRUE(std::isnan(out[2]));
        EXPECT_EQ(out[4], 0);
        run(Quantize{.x = x.on(device), .out = out.on(device), .token_scale = token_scale.on(device)});
        EXPECT_EQ(token_scale[0], static_cast<float>(7.0 / 448));
        EXPECT_EQ(token_scale[1], 1);  // nothing to scale
        EXPECT_EQ(token_scale[2], static_cast<float>(3.0 / 448));
        EXPECT_EQ(out[8], 448);
    }
}

TEST(Quantize, AnEmptyTensorHasScaleOne) {
    for (const Device device : test::host_devices()) {
        HostTensor x(DType::bf16, {0, 8}), out(DType::fp8_e4m3, {0, 8}), scale(DType::fp32, {1}, {5});
        run(Quantize{.x = x.on(device), .out = out.on(device), .tensor_scale = scale.on(device)});
        EXPECT_EQ(scale[0], 1);
    }
}

TEST(Quantize, PolicyBoundsTheFirstPass) {
    const std::string config =
        test::configuration("quantize x=bf16[968,16384] out=fp8_e4m3[968,16384] tensor_scale=fp32[1]");
    if (config.empty()) GTEST_SKIP() << "no kernels";
    EXPECT_THAT(config, HasSubstr("tensor: amax: threads=256 lanes=256 grid=528x1; then"));
    EXPECT_THAT(test::configuration("quantize x=bf16[10,2048] out=fp8_e4m3[10,2048] token_scale=fp32[10]"),
                HasSubstr("token: threads=64 a row"));
}

}  // namespace
}  // namespace weft
