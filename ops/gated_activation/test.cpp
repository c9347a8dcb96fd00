// gated_activation: what generated cases don't say.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "ops/gated_activation/gated_activation.h"
#include "tests/ops/support.h"
#include "verify/verify.h"

namespace weft {
namespace {

using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

TEST(GatedActivation, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("gated_activation out=bf16[4,8] x=bf16[4,16] gate=bf16[4,8]"),
                HasSubstr("gated_activation.gate: expected x or gate, got both"));
    EXPECT_THAT(rejection("gated_activation out=bf16[4,8] x=bf16[4,16] up=bf16[4,8]"),
                HasSubstr("gated_activation.up: expected x or up, got both"));
    EXPECT_THAT(rejection("gated_activation out=bf16[4,8]"),
                HasSubstr("gated_activation.x: expected x, or gate and up, got neither x nor gate"));
    EXPECT_THAT(rejection("gated_activation out=bf16[4,8] up=bf16[4,8]"),
                HasSubstr("gated_activation.up: expected gate beside it, got none"));
    EXPECT_THAT(rejection("gated_activation out=bf16[4,8] gate=bf16[4,8]"),
                HasSubstr("gated_activation.gate: expected up beside it, got none"));
    EXPECT_THAT(rejection("gated_activation out=bf16[4,8] gate=bf16[4,8] up=fp16[4,8]"),
                HasSubstr("gated_activation.up: expected gate's dtype bf16, got fp16"));
    EXPECT_THAT(
        rejection("gated_activation out=fp8_e4m3[4,8] x=bf16[4,16] scale=fp32[1] token_scale=fp32[4]"),
        HasSubstr("gated_activation.token_scale: expected scale or token_scale, got both"));
    EXPECT_THAT(rejection("gated_activation out=bf16[4,8] x=bf16[4,16] scale=fp32[1]"),
                HasSubstr("gated_activation.scale: expected none, because out is bf16, which has no scale"));
    EXPECT_THAT(rejection("gated_activation out=bf16[4,8] x=bf16[4,15]"),
                HasSubstr("gated_activation.x: expected"));
    EXPECT_THAT(rejection("gated_activation out=int32[4,8] x=bf16[4,16]"),
                HasSubstr("gated_activation.out: expected dtype"));
    EXPECT_THAT(rejection("gated_activation out=bf16[4,8] x=bf16[4,16]{32,2}"),
                HasSubstr("gated_activation.x: the last axis must be contiguous"));
}

// For a large negative gate, 0.5·x·(1 + tanh(…)) in fp32 has no digit left; x·σ(t) has all but a few.
TEST(GatedActivation, KeepsItsDigitsFarBelowZero) {
    const std::vector<double> gates = {-3, -4, -5, -6, 3, 20, -20, 0};
    HostTensor gate(DType::fp32, {1, 8}, gates), up(DType::fp32, {1, 8}, std::vector<double>(8, 1.0));
    for (const Device device : test::host_devices()) {
        HostTensor tanh(DType::fp32, {1, 8}), erf(DType::fp32, {1, 8});
        GatedActivation op{.out = tanh.on(device), .gate = gate.on(device), .up = up.on(device)};
        op.activation = GatedActivation::Activation::gelu_tanh;
        run(op);
        op.activation = GatedActivation::Activation::gelu_erf;
        op.out = erf.on(device);
        run(op);
        for (int i = 0; i < 8; ++i) {
            const double x = gates[static_cast<std::size_t>(i)],
                         t = 2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
            const double by_tanh = x / (1 + std::exp(-t)), by_erf = 0.5 * x * std::erfc(-x / std::sqrt(2.0));
            EXPECT_NEAR(tanh[i], by_tanh, 2e-5 * std::fabs(by_tanh) + 1e-37) << x;
            EXPECT_NEAR(erf[i], by_erf, 5e-5 * std::fabs(by_erf) + 1e-37) << x;
        }
    }
}

TEST(GatedActivation, InfinityAndNanPassThrough) {
    const double inf = std::numeric_limits<double>::infinity(),
                 nan = std::numeric_limits<double>::quiet_NaN();
    HostTensor gate(DType::bf16, {1, 3}, {inf, -inf, nan}), up(DType::bf16, {1, 3}, {2, 2, 2});
    for (const Device device : test::host_devices()) {
        for (const auto activation :
             {GatedActivation::Activation::silu, GatedActivation::Activation::gelu_tanh,
              GatedActivation::Activation::gelu_erf}) {
            HostTensor out(DType::bf16, {1, 3});
            GatedActivation op{.out = out.on(device), .gate = gate.on(device), .up = up.on(device)};
            op.activation = activation;
            run(op);
            EXPECT_EQ(out[0], inf);
            EXPECT_TRUE(std::isnan(out[1]));  // −∞·0, as in PyTorch
            EXPECT_TRUE(std::isnan(out[2]));
        }
    }
}

// silu(0.3125) is 0.18045… and rounds to 0.1806640625 in bf16: times 1.046875 the two round apart. Neither mode passes
// for the other.
TEST(GatedActivation, RoundsOnceOrAfterEachStep) {
    HostTensor gate(DType::bf16, {1, 1}, {0.3125}), up(DType::bf16, {1, 1}, {1.046875});
    for (const Device device : test::host_devices()) {
        for (const auto rounding : {Rounding::fused, Rounding::eager}) {
            HostTensor out(DType::bf16, {1, 1});
            run(GatedActivation{
                .out = out.on(device), .gate = gate.on(device), .up = up.on(device), .rounding = rounding});
            EXPECT_EQ(out[0], rounding == Rounding::eager ? 0.189453125 : 0.1884765625);
        }
    }
    EXPECT_THAT(rejection("gated_activation x=bf16[4,16] out=fp32[4,8] rounding=eager"),
                HasSubstr("gated_activation.out: expected gate's dtype with rounding=eager, got fp32"));
    for (const std::string bias : {"gate_bias", "up_bias"}) {
        EXPECT_THAT(
            rejection("gated_activation x=bf16[4,16] out=bf16[4,8] " + bias + "=fp32[8] rounding=eager"),
            HasSubstr("gated_activation." + bias + ": expected gate's dtype with rounding=eager, got fp32"));
    }
    EXPECT_THAT(rejection("gated_activation gate=fp4_e2m1[4,16] up=fp4_e2m1[4,16] gate_scale=fp8_e4m3[128,4] "
                          "up_scale=fp8_e4m3[128,4] out=bf16[4,16] rounding=eager"),
                HasSubstr("gated_activation.rounding: expected fused for a gate of NVFP4"));
    EXPECT_THAT(
        rejection("gated_activation x=bf16[4,16] out=bf16[4,8] channel_multiplier=bf16[8] rounding=eager"),
        HasSubstr("gated_activation.channel_multiplier: expected none with rounding=eager"));
}

// The gates that nothing but their name tells apart at 0 and far from it.
TEST(GatedActivation, GatesOfGluReGluAndQuickGelu) {
    using Activation = GatedActivation::Activation;
    HostTensor gate(DType::fp32, {1, 4}, {-1e30, -2, 0, 2}), up(DType::fp32, {1, 4}, {3, 3, 3, 3});
    const auto sigma = [](double t) { return 1 / (1 + std::exp(-t)); };
    const struct {
        Activation activation;
        double expected[4];
    } kGates[] = {{Activation::sigmoid, {0, 3 * sigma(-2), 1.5, 3 * sigma(2)}},
                  {Activation::relu, {0, 0, 0, 6}},
                  {Activation::gelu_quick, {0, -6 * sigma(-3.404), 0, 6 * sigma(3.404)}}};
    for (const Device device : test::host_devices()) {
        for (const auto& [activation, expected] : kGates) {
            HostTensor out(DType::fp32, {1, 4});
            run(GatedActivation{.out = out.on(device),
                                .gate = gate.on(device),
                                .up = up.on(device),
                                .activation = activation});
            for (int i = 0; i < 4; ++i) EXPECT_NEAR(out[i], expected[i], 1e-5) << name(activation) << i;
        }
    }
    EXPECT_THAT(rejection("gated_activation x=bf16[4,16] out=bf16[4,8] activation=gelu_quick rounding=eager"),
                HasSubstr("gated_activation.activation: expected another than gelu_quick"));
}

TEST(GatedActivation, BiasesAreThoseOfTheProjectionBefore) {
    HostTensor gate(DType::fp32, {2, 2}, {1, 2, 3, 4}), up(DType::fp32, {2, 2}, {5, 6, 7, 8}),
        gate_bias(DType::fp32, {2}, {-1, 0.5}), up_bias(DType::fp32, {2}, {10, -6});
    for (const Device device : test::host_devices()) {
        HostTensor out(DType::fp32, {2, 2});
        run(GatedActivation{.out = out.on(device),
                            .gate = gate.on(device),
                            .up = up.on(device),
                            .gate_bias = gate_bias.on(device),
                            .up_bias = up_bias.on(device)});
        for (int i = 0; i < 4; ++i) {
            const double g = gate[i] + gate_bias[i % 2], u = up[i] + up_bias[i % 2];
            EXPECT_NEAR(out[i], g / (1 + std::exp(-g)) * u, 1e-4) << i;
        }
    }
}

TEST(GatedActivation, HalvesOfOneTensorEqualTwoTensors) {
    HostTensor x(DType::bf16, {3, 40});
    for (int i = 0; i < 120; ++i) x.set(i, std::sin(0.7 * i) * 3);
    for (const Device device : test::host_devices()) {
        HostTensor merged(DType::bf16, {3, 20}), separate(DType::bf16, {3, 20});
        run(GatedActivation{.out = merged.on(device), .x = x.on(device)});
        run(GatedActivation{.out = separate.on(device),
                            .gate = x.on(device).slice(1, 0, 20),
                            .up = x.on(device).slice(1, 20, 40)});
        EXPECT_EQ(merged, separate);
    }
}

// Tiles of scales have room behind a row's last group, and may hold anything there: no lane beyond the row reads it. A NaN
// would go to the amax of the group that the lane shares.
TEST(GatedActivation, ScalesBehindARowAreNotRead) {
    const std::vector<double> ones(48, 1);
    HostTensor gate(DType::fp4_e2m1, {1, 48}, ones), up(DType::fp4_e2m1, {1, 48}, ones);
    HostTensor tiles(DType::fp8_e4m3, {128, 4}, std::vector<double>(512, 1));
    tiles.set(3, std::nan(""));
    for (const Device device : test::host_devices()) {
        HostTensor out(DType::fp4_e2m1, {1, 48}), scale(DType::ue8m0, {1, 2});
        run(GatedActivation{.out = out.on(device),
                            .gate = gate.on(device),
                            .up = up.on(device),
                            .group_scale = scale.on(device),
                            .gate_scale = tiles.on(device),
                            .up_scale = tiles.on(device)});
        for (int i = 0; i < 48; ++i) EXPECT_EQ(out[i], out[0]) << i;
        EXPECT_GT(out[0], 0);
        EXPECT_EQ(scale[1], scale[0]);
    }
}

// Rows that a block can't keep in registers are computed twice; generated cases are shorter.
TEST(GatedActivation, RowsBeyondTheRegisters) {
    for (const Device device : test::host_devices()) {
        const Case c =
            Case::parse("gated_activation out=fp8_e4m3[2,16500] x=bf16[2,33000] token_scale=fp32[2]");
        EXPECT_EQ(verify(c, device).why, "");
    }
}

TEST(GatedActivation, PolicyFillsTheDeviceAndFoldsDenseRows) {
    if (test::configuration("gated_activation out=bf16[1,8] x=bf16[1,16]").empty())
        GTEST_SKIP() << "no kernels";
    EXPECT_THAT(
        test::configuration("gated_activation out=fp8_e4m3[968,16384] x=bf16[968,32768] scale=fp32[1]"),
        HasSubstr("vectors: threads=256 lanes=256 grid=8x968"));
    // Without gaps the rows are one: no lane is idle at a row's end.
    EXPECT_THAT(test::configuration("gated_activation out=bf16[1000,72] gate=bf16[1000,72] up=bf16[1000,72]"),
                HasSubstr("x1"));
    EXPECT_THAT(
        test::configuration("gated_activation out=fp8_e4m3[10,4096] x=bf16[10,8192] token_scale=fp32[10]"),
        HasSubstr("token: threads=128 a row"));
}

}  // namespace
}  // namespace weft
