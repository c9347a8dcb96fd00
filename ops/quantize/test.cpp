// quantize: what generated cases don't say.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/quantize/quantize.h"
#include "tests/ops/support.h"
#include "verify/random.h"
#include "verify/verify.h"

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
                HasSubstr("quantize.tensor_scale: expected token_scale or tensor_scale, got both"));
    EXPECT_THAT(rejection("quantize x=bf16[4,8] out=fp8_e4m3[4,8] token_scale=fp32[5]"),
                HasSubstr("quantize.token_scale: expected [...=(4)], got [5]"));
    EXPECT_THAT(rejection("quantize x=bf16[4,8] out=fp8_e4m3[4,8] scale=bf16[1]"),
                HasSubstr("quantize.scale: expected dtype fp32"));
}

TEST(Quantize, RejectsScalesThatAreNotTheFormats) {
    EXPECT_THAT(rejection("quantize x=bf16[4,32] out=fp4_e2m1[4,32]"),
                HasSubstr("quantize.group_scale: expected group_scale or swizzled_scale for fp4_e2m1"));
    EXPECT_THAT(
        rejection("quantize x=bf16[4,32] out=fp4_e2m1[4,32] group_scale=fp32[4,1]"),
        HasSubstr("quantize.group_scale: expected dtype fp8_e4m3, ue8m0 beside out of fp4_e2m1, got fp32"));
    EXPECT_THAT(rejection("quantize x=bf16[4,32] out=int8[4,32] group_scale=fp32[4,1]"),
                HasSubstr("quantize.group_scale: expected none beside out of int8"));
    EXPECT_THAT(rejection("quantize x=bf16[4,40] out=fp4_e2m1[4,40] group_scale=fp8_e4m3[4,2]"),
                HasSubstr("quantize.group_scale: expected [...=(4), ceil(dim/group)=3], got [4, 2]"));
    EXPECT_THAT(rejection("quantize x=bf16[4,40] out=fp4_e2m1[4,40] swizzled_scale=fp8_e4m3[4,4]"),
                HasSubstr("quantize.swizzled_scale: expected"));
    EXPECT_THAT(rejection("quantize x=bf16[4,32] out=fp8_e4m3[4,32] group_scale=ue8m0[4,1] scale=fp32[1]"),
                HasSubstr("quantize.scale: expected none beside groups"));
    EXPECT_THAT(
        rejection("quantize x=bf16[4,32] out=fp8_e4m3[4,32] group_scale=fp32[4,1] token_scale=fp32[4]"),
        HasSubstr("quantize.group_scale: expected token_scale or group_scale, got both"));
    EXPECT_THAT(rejection("quantize x=bf16[4,32] out=fp8_e4m3[4,32] block_scale=fp32[1,1] scale=fp32[1]"),
                HasSubstr("quantize.block_scale: expected scale or block_scale, got both"));
    EXPECT_THAT(
        rejection("quantize x=bf16[4,32] out=fp8_e4m3[4,32] group_scale=ue8m0[4,1] tensor_scale=fp32[1]"),
        HasSubstr("quantize.tensor_scale: expected none beside groups"));
    EXPECT_THAT(rejection("quantize x=bf16[4,33] out=fp4_e2m1[4,33] group_scale=ue8m0[4,2]"),
                HasSubstr("quantize.out: two elements share a byte"));
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

// Codes of four bits by the table of their values: a tie goes to the even code.
TEST(Quantize, Fp4RoundsTiesToEven) {
    const std::vector<double> ties = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5}, even = {0, 1, 1, 2, 2, 4, 4},
                              below = {0, 0.5, 1, 1.5, 2, 3, 4}, above = {0.5, 1, 1.5, 2, 3, 4, 6};
    HostTensor x(DType::fp32, {3, 32});
    for (int i = 0; i < 7; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const auto tie = static_cast<float>(ties[at]);
        x.set(i, tie);
        x.set(7 + i, -tie);
        x.set(32 + i, std::nextafter(tie, 0.0f));
        x.set(64 + i, std::nextafter(tie, 9.0f));
    }
    for (const int row : {0, 1, 2}) x.set(row * 32 + 15, 6), x.set(row * 32 + 31, -6);  // the scale is 1
    for (const DType scales : {DType::fp8_e4m3, DType::ue8m0}) {
        for (const Device device : test::host_devices()) {
            HostTensor out(DType::fp4_e2m1, {3, 32}), scale(scales, {3, group_columns(scales) == 16 ? 2 : 1});
            run(Quantize{.x = x.on(device), .out = out.on(device), .group_scale = scale.on(device)});
            for (int i = 0; i < 7; ++i) {
                const auto at = static_cast<std::size_t>(i);
                EXPECT_EQ(out[i], even[at]);
                EXPECT_EQ(out[7 + i], -even[at]);
                EXPECT_EQ(out[32 + i], below[at]);
                EXPECT_EQ(out[64 + i], above[at]);
            }
            EXPECT_EQ(scale[0], 1);
        }
    }
}

// The least scale is 2^-9 and the largest one 448: what is beyond six times that has the largest code.
TEST(Quantize, Fp4SaturatesWhereTheScaleIsTooSmall) {
    constexpr double kLeast = 0x1p-9, kMost = 448;
    for (const DType dtype : {DType::bf16, DType::fp32}) {
        HostTensor x(dtype, {1, 48});
        x.set(0, 8.5 * kLeast), x.set(1, -8.5 * kLeast), x.set(2, 3 * kLeast);
        x.set(16, 7 * kLeast), x.set(17, -7 * kLeast), x.set(18, 6.5 * kLeast);
        x.set(32, 12 * kMost), x.set(33, -12 * kMost), x.set(34, 3 * kMost);
        for (const Device device : test::host_devices()) {
            HostTensor out(DType::fp4_e2m1, {1, 48}), scale(DType::fp8_e4m3, {1, 3});
            run(Quantize{.x = x.on(device), .out = out.on(device), .group_scale = scale.on(device)});
            for (const int group : {0, 1, 2}) {
                EXPECT_EQ(scale[group], group < 2 ? kLeast : kMost);
                EXPECT_EQ(out[16 * group], 6);
                EXPECT_EQ(out[16 * group + 1], -6);
                EXPECT_EQ(out[16 * group + 2], group == 1 ? 6 : 3);
                EXPECT_EQ(out[16 * group + 3], 0);
            }
        }
    }
}

// Against the conversion that tests/core holds to CUDA's, over random bits of the range.
TEST(Quantize, Fp4IsTheConversionOfTheDtype) {
    Random random(5);
    HostTensor x(DType::fp32, {256, 32});
    for (int i = 0; i < 256 * 32; ++i) {
        const auto bits = static_cast<std::uint32_t>(random.bits());
        const float u = std::ldexp(static_cast<float>(bits >> 8), -24) * (bits % 7 == 0 ? 0.3f : 7.0f);
        x.set(i, i % 32 == 31 ? 7 : bits % 2 == 0 ? u : -u);
    }
    for (const Device device : test::host_devices()) {
        HostTensor out(DType::fp4_e2m1, {256, 32}), scale(DType::ue8m0, {256, 1});
        run(Quantize{.x = x.on(device), .out = out.on(device), .group_scale = scale.on(device)});
        for (int i = 0; i < 256 * 32; ++i) {
            ASSERT_EQ(out[i], round_to(DType::fp4_e2m1, x[i] / 2)) << x[i];
            ASSERT_EQ(scale[i / 32], 2);
        }
    }
}

// The power of two from amax / max on: never a smaller one, or the largest value would saturate.
TEST(Quantize, MxScalesAreThePowerAbove) {
    const float largest = std::numeric_limits<float>::max();
    const std::vector<double> amax = {
        0, 448, std::nextafter(448.0f, 500.0f), 1.75 * 0x1p-100, 0x1p-149, largest, 0x1.8p-119, kInfinity};
    HostTensor x(DType::fp32, {8, 32});
    for (int i = 0; i < 8; ++i) x.set(i * 32 + 5, -amax[static_cast<std::size_t>(i)]);
    for (const Device device : test::host_devices()) {
        HostTensor out(DType::fp8_e4m3, {8, 32}), scale(DType::ue8m0, {8, 1});
        run(Quantize{.x = x.on(device), .out = out.on(device), .group_scale = scale.on(device)});
        const std::vector<double> expected = {0x1p-127, 1, 2, 0x1p-108, 0x1p-127, 0x1p120, 0x1p-127, 0x1p127};
        for (int i = 0; i < 8; ++i) EXPECT_EQ(scale[i], expected[static_cast<std::size_t>(i)]) << i;
        EXPECT_EQ(out[32 + 5], -448);
        EXPECT_EQ(out[64 + 5], -224);
        EXPECT_EQ(out[7 * 32 + 5], -448);
    }
}

// NVFP4's two levels: amax / (6·448) for the tensor, then e4m3 of amax / 6 for each group over it.
TEST(Quantize, TwoLevelsKeepSmallGroups) {
    HostTensor x(DType::fp32, {1, 48});
    for (int i = 0; i < 16; ++i) {
        x.set(i, 2688 * 0x1p-20 * (i == 3 ? 1 : 0.25));
        x.set(16 + i, 3 * 0x1p-20);
    }
    for (const Device device : test::host_devices()) {
        HostTensor out(DType::fp4_e2m1, {1, 48}), group(DType::fp8_e4m3, {1, 3}), tensor(DType::fp32, {1});
        Quantize op{.x = x.on(device), .out = out.on(device), .tensor_scale = tensor.on(device)};
        op.group_scale = group.on(device);
        run(op);
        EXPECT_EQ(tensor[0], 0x1p-20);
        EXPECT_EQ(group[0], 448);
        EXPECT_EQ(group[1], 0.5);
        EXPECT_EQ(group[2], 0);  // nothing but zeros
        EXPECT_EQ(out[3], 6);
        EXPECT_EQ(out[0], 1.5);
        EXPECT_EQ(out[16], 6);
        EXPECT_EQ(out[40], 0);
        // One level loses the second group: its scale rounds to 0, and so do the codes.
        op.tensor_scale = {};
        run(op);
        EXPECT_EQ(group[1], 0);
        EXPECT_EQ(out[16], 0);
    }
}

// Codes without NaN say it by their scale; those of other groups are as ever.
TEST(Quantize, NanIsInTheScaleWhereNoCodeHasIt) {
    HostTensor x(DType::fp32, {2, 32});
    for (int i = 0; i < 64; ++i) x.set(i, i % 5 - 2.0);
    x.set(3, -kNan);
    x.set(33, kInfinity);
    for (const Device device : test::host_devices()) {
        HostTensor out(DType::fp4_e2m1, {2, 32}), group(DType::fp8_e4m3, {2, 2});
        run(Quantize{.x = x.on(device), .out = out.on(device), .group_scale = group.on(device)});
        EXPECT_TRUE(std::isnan(group[0]));
        for (int i = 0; i < 16; ++i) EXPECT_EQ(out[i], 0);
        EXPECT_NEAR(group[1], 2.0 / 6, 0.02);
        EXPECT_EQ(group[2], 448);  // the largest that there is
        EXPECT_EQ(out[33], 6);
        HostTensor bytes(DType::int8, {2, 32}), token(DType::fp32, {2});
        run(Quantize{.x = x.on(device), .out = bytes.on(device), .token_scale = token.on(device)});
        EXPECT_TRUE(std::isnan(token[0]));
        for (int i = 0; i < 32; ++i) EXPECT_EQ(bytes[i], 0);
        HostTensor fp8(DType::fp8_e4m3, {2, 32});
        run(Quantize{.x = x.on(device), .out = fp8.on(device), .token_scale = token.on(device)});
        EXPECT_EQ(token[0], 2.0f / 448);
        EXPECT_TRUE(std::isnan(fp8[3]));
        EXPECT_EQ(fp8[0], -448);
    }
}

TEST(Quantize, BlocksHaveOneScaleFor128By128) {
    HostTensor x(DType::bf16, {130, 136});
    x.set(127 * 136 + 127, -7);
    x.set(127 * 136 + 128, 3.5);
    x.set(129 * 136, 14);
    for (const Device device : test::host_devices()) {
        HostTensor out(DType::fp8_e4m3, {130, 136}), scale(DType::fp32, {2, 2});
        run(Quantize{.x = x.on(device), .out = out.on(device), .block_scale = scale.on(device)});
        EXPECT_EQ(scale[0], 7.0f / 448);
        EXPECT_EQ(scale[1], 3.5f / 448);
        EXPECT_EQ(scale[2], 14.0f / 448);
        EXPECT_EQ(scale[3], 1);
        EXPECT_EQ(out[127 * 136 + 127], -448);
        EXPECT_EQ(out[129 * 136], 448);
    }
}

// A scale that is as wide as the tensor is long: column-major, as matrix kernels read fp8's groups.
TEST(Quantize, ScalesOfGroupsMayBeColumnMajor) {
    const Case c = Case::parse(
        "quantize x=bf16[5,300] out=fp8_e4m3[5,300] group_scale=fp32[5,3]{1,8} channel_multiplier=fp16[300]");
    for (const Device device : test::host_devices()) EXPECT_EQ(verify(c, device).why, "");
}

// Values between two codes under scales that no power of two is: there the last bit of a product with the scale's
// reciprocal decides, and a quotient has another. Of few drawn values it is that near.
TEST(Quantize, ValuesAreMultipliedByTheReciprocalOfTheirScale) {
    constexpr std::int64_t kSide = 128;
    Random random(5);
    for (int i = 0; i < 8; ++i) {
        const double scale = static_cast<float>(0.5 + random.uniform());
        HostTensor x(DType::fp32, {kSide, kSide}), given(DType::fp32, {1}, {scale});
        for (std::int64_t at = 0; at < kSide * kSide; ++at)
            x.set(at, at % kSide == 0 ? 448 * scale : (1.0625 + 0.125 * static_cast<double>(at % 7)) * scale);
        const std::pair<Tensor Quantize::*, std::vector<std::int64_t>> kScales[] = {
            {&Quantize::scale, {1}},
            {&Quantize::tensor_scale, {1}},
            {&Quantize::token_scale, {kSide}},
            {&Quantize::group_scale, {kSide, 1}},
            {&Quantize::block_scale, {1, 1}}};
        for (const auto& [field, shape] : kScales) {
            const auto codes = [&, field = field, shape = shape](Device device) {
                HostTensor out(DType::fp8_e4m3, {kSide, kSide}), found(DType::fp32, shape);
                Quantize op{.x = x.on(device), .out = out.on(device)};
                op.*field = field == &Quantize::scale ? given.on(device) : found.on(device);
                run(op);
                return out;
            };
            const HostTensor expected = codes(kCpu);
            for (const Device device : test::host_devices()) EXPECT_TRUE(codes(device) == expected);
        }
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
    EXPECT_THAT(test::configuration("quantize x=bf16[968,2048] out=fp4_e2m1 group_scale=fp8_e4m3"),
                HasSubstr("groups: threads=256 lanes=128 grid=1x484"));
    // A group's 8 lanes lie side by side in rows that are shorter.
    EXPECT_THAT(test::configuration("quantize x=bf16[4096,64] out=fp8_e4m3 group_scale=fp32"),
                HasSubstr("groups: threads=128 lanes=8 grid=1x256"));
    EXPECT_THAT(test::configuration("quantize x=bf16[4096,7168] out=fp8_e4m3 block_scale=fp32"),
                HasSubstr("blocks: grid=56x32"));
}

}  // namespace
}  // namespace weft
