// layer_norm: what generated cases don't say.
#include "ops/layer_norm/layer_norm.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/ops/emulated.h"
#include "tests/ops/support.h"
#include "verify/random.h"
#include "verify/verify.h"
#include "weft/case.h"
#include "weft/op.h"

namespace weft {
namespace {

using test::rejection;
using ::testing::HasSubstr;

TEST(LayerNorm, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("layer_norm x=int8[4,8] out=bf16[4,8]"), HasSubstr("layer_norm.x: expected dtype"));
    EXPECT_THAT(rejection("layer_norm x=bf16[4,8] weight=bf16[7] out=bf16[4,8]"),
                HasSubstr("layer_norm.weight: expected [dim=8], got [7]"));
    EXPECT_THAT(rejection("layer_norm x=bf16[4,8] bias=bf16[2,8] out=bf16[4,8]"),
                HasSubstr("layer_norm.bias: expected"));
    EXPECT_THAT(rejection("layer_norm x=bf16[4,8]{8,2} out=bf16[4,8]"),
                HasSubstr("layer_norm.x: the last axis must be contiguous"));
    EXPECT_THAT(rejection("layer_norm x=bf16[4,8] out=bf16[4,9]"), HasSubstr("layer_norm.out: expected"));
    EXPECT_THAT(rejection("layer_norm x=bf16[4,8] residual=bf16[4,8] residual_out=fp32[4,8] out=bf16[4,8]"),
                HasSubstr("layer_norm.residual_out: expected residual's dtype bf16, got fp32"));
    EXPECT_THAT(rejection("layer_norm x=bf16[4,8] residual_out=bf16[4,8] out=bf16[4,8]"),
                HasSubstr("layer_norm.residual_out: expected residual beside it, got none"));
    EXPECT_THAT(rejection("layer_norm x=bf16[4,8] out=bf16[4,8] weight_offset=1"),
                HasSubstr("layer_norm.weight_offset: expected 0 where there is no weight"));
    EXPECT_THAT(rejection("layer_norm x=bf16[4,8] out=bf16[4,8] token_scale=fp32[4]"),
                HasSubstr("layer_norm.token_scale: expected none, because out is bf16, which has no scale"));
    EXPECT_THAT(rejection("layer_norm x=bf16[4,8] out=fp8_e4m3[4,8] scale=fp32[1] token_scale=fp32[4]"),
                HasSubstr("layer_norm.token_scale: expected scale or token_scale, got both"));
    EXPECT_THAT(rejection("layer_norm out=bf16[4,8]"), HasSubstr("layer_norm.x: is required"));
}

// PyTorch's operators have one dtype, or weights in fp32, and nothing that they do not know.
TEST(LayerNorm, EagerHasOneDtypeAndNoOffset) {
    const std::string x = "layer_norm x=bf16[4,8] ";
    EXPECT_EQ(
        rejection((x + "weight=bf16[8] bias=bf16[8] residual=bf16[4,8] residual_out=bf16[4,8] out=bf16[4,8] "
                       "rounding=eager")
                      .c_str()),
        "accepted");
    EXPECT_EQ(rejection((x + "weight=fp32[8] bias=fp32[8] out=bf16[4,8] rounding=eager").c_str()),
              "accepted");
    for (const char* others : {"weight=fp16[8] out=bf16[4,8]", "bias=fp16[8] out=bf16[4,8]"}) {
        EXPECT_EQ(rejection((x + others).c_str()), "accepted") << others;
        EXPECT_THAT(rejection((x + others + " rounding=eager").c_str()),
                    HasSubstr("expected x's dtype or fp32 with rounding=eager, got fp16"));
    }
    for (const char* others : {"residual=fp32[4,8] residual_out=fp32[4,8] out=bf16[4,8]", "out=fp32[4,8]"}) {
        EXPECT_EQ(rejection((x + others).c_str()), "accepted") << others;
        const std::string field = std::string(others).substr(0, std::string(others).find('='));
        EXPECT_THAT(rejection((x + others + " rounding=eager").c_str()),
                    HasSubstr("layer_norm." + field + ": expected x's dtype with rounding=eager, got fp32"));
    }
    const std::string offset = x + "weight=bf16[8] out=bf16[4,8] weight_offset=1";
    EXPECT_EQ(rejection(offset.c_str()), "accepted");
    EXPECT_THAT(rejection((offset + " rounding=eager").c_str()),
                HasSubstr("layer_norm.weight_offset: expected 0 with rounding=eager"));
}

TEST(LayerNorm, KeepsItsDigitsFarFromZero) {
    // Deviations of 1/16 around 4096: E[x²] - mean² would have lost all of the variance in fp32.
    constexpr int kDim = 512;
    const Device device = WEFT_HAS_EMULATOR ? kEmulator : kCpu;
    std::vector<float> x(kDim), out(kDim);
    for (int i = 0; i < kDim; ++i)
        x[static_cast<std::size_t>(i)] = 4096.0f + (i % 2 == 0 ? 0.0625f : -0.0625f);
    run(LayerNorm{.x = Tensor(x.data(), DType::fp32, {1, kDim}, device),
                  .out = Tensor(out.data(), DType::fp32, {1, kDim}, device),
                  .eps = 0});
    for (int i = 0; i < kDim; ++i)
        EXPECT_FLOAT_EQ(out[static_cast<std::size_t>(i)], i % 2 == 0 ? 1.0f : -1.0f);
}

// The mean of these is no fp32 number, so that one difference by it cannot stand for another.
TEST(LayerNorm, SquaresTheDifferencesFromTheRoundedMean) {
    constexpr std::size_t kDim = 999;
    const Device device = WEFT_HAS_EMULATOR ? kEmulator : kCpu;
    std::vector<float> x(kDim), out(kDim);
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < kDim; ++i) {
        x[i] = 4096.0f + 0.125f * static_cast<float>(i % 3) + 0.5f * static_cast<float>(i % 7 == 0);
        mean += static_cast<double>(x[i]) / kDim;
    }
    for (const float v : x)
        variance += (static_cast<double>(v) - mean) * (static_cast<double>(v) - mean) / kDim;
    run(LayerNorm{.x = Tensor(x.data(), DType::fp32, {1, kDim}, device),
                  .out = Tensor(out.data(), DType::fp32, {1, kDim}, device),
                  .eps = 0});
    for (std::size_t i = 0; i < kDim; ++i)
        ASSERT_NEAR(static_cast<double>(out[i]), (static_cast<double>(x[i]) - mean) / std::sqrt(variance),
                    0.01)
            << i;
}

#if WEFT_HAS_EMULATOR
// Mean and sum of squared differences as PyTorch's kernel keeps them.
struct Running {
    float mean = 0, squares = 0, count = 0;
};
Running with(const Running& w, float x) {
    const float difference = x - w.mean, count = w.count + 1, mean = w.mean + difference * (1 / count);
    return {mean, w.squares + difference * (x - mean), count};
}
Running together(const Running& a, const Running& b) {  // b is the half that is further on
    const float count = b.count + a.count;
    if (count == 0) return {};
    const float share = 1 / count, of_b = b.count * share, of_a = a.count * share, apart = a.mean - b.mean;
    return {of_b * b.mean + of_a * a.mean, b.squares + a.squares + apart * apart * b.count * of_a, count};
}

// The moments of a row in PyTorch's order: 128 threads take four neighbours in turn; a warp's lanes are merged 16, 8, 4, 2
// and 1 apart, then the four warps 2 and 1 apart.
Running moments_in_order(const float* x, std::size_t dim) {
    std::vector<Running> of(128);
    for (std::size_t i = 0; i < dim; ++i) of[i / 4 % 128] = with(of[i / 4 % 128], x[i]);
    for (const std::size_t apart : {16, 8, 4, 2, 1, 64, 32}) {
        for (std::size_t t = 0; t + apart < 128; ++t) {
            const bool lane = apart < 32 && t % 32 < apart, warp = apart >= 32 && t % 32 == 0 && t < apart;
            if (lane || warp) of[t] = together(of[t], of[t + apart]);
        }
    }
    return of[0];
}

// rounding=eager is PyTorch's to the bit, which an interval cannot tell.
TEST(LayerNorm, EagerRoundsAndMergesInPyTorchsOrder) {
    constexpr float kEps = 0.25f;
    for (const std::size_t dim : {4, 100, 512, 1000, 4096, 5000}) {
        constexpr std::size_t kRows = 5;
        test::HostTensor x(DType::fp32, {kRows, static_cast<std::int64_t>(dim)}),
            weight(DType::fp32, {static_cast<std::int64_t>(dim)}), bias = weight, out = x;
        std::vector<float> values(kRows * dim), factors(dim), added(dim);
        Random random(dim);
        for (std::size_t i = 0; i < values.size(); ++i) {
            values[i] = static_cast<float>(random.normal() + 3);
            x.set(static_cast<std::int64_t>(i), values[i]);
        }
        for (std::size_t i = 0; i < dim; ++i) {
            weight.set(static_cast<std::int64_t>(i), factors[i] = static_cast<float>(random.normal()));
            bias.set(static_cast<std::int64_t>(i), added[i] = static_cast<float>(random.normal()));
        }
        run(LayerNorm{.x = x.on(kEmulator),
                      .weight = weight.on(kEmulator),
                      .bias = bias.on(kEmulator),
                      .out = out.on(kEmulator),
                      .eps = kEps,
                      .rounding = Rounding::eager});
        int others = 0;
        for (std::size_t row = 0; row < kRows; ++row) {
            const Running all = moments_in_order(&values[row * dim], dim);
            const float variance = all.squares / static_cast<float>(dim) + kEps;
            const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(variance)));
            for (std::size_t i = 0; i < dim; ++i) {
                const float expected = factors[i] * (scale * (values[row * dim + i] - all.mean)) + added[i];
                others += static_cast<float>(out[static_cast<std::int64_t>(row * dim + i)]) != expected;
            }
        }
        EXPECT_EQ(others, 0) << dim;
    }
}

// Three exchanges between the blocks of a cluster: a half of what they exchange by is used again.
TEST(LayerNorm, RowsOfACluster) {
    test::expect_right(
        "layer_norm x=bf16[2,65536] weight=bf16[65536] bias=bf16[65536] out=fp8_e4m3[2,65536] "
        "token_scale=fp32[2]",
        "rows", "vectors=4x8 rows=1 cluster=8");
}
// Many long rows fill a thread's registers: weight and bias come by halves, twice where the row's scale is looked for.
TEST(LayerNorm, RowsOfAClusterWhoseThreadsAreFull) {
    for (const char* line : {
             "layer_norm x=bf16[3,57352] weight=bf16[57352] bias=bf16[57352] out=bf16[3,57352]",
             "layer_norm x=bf16[3,65528] bias=bf16[65528] out=bf16[3,65528]",
             "layer_norm x=fp16[3,65528] weight=fp16[65528] bias=fp16[65528] residual=fp16[3,65528] "
             "residual_out=fp16[3,65528] out=fp8_e4m3[3,65528] token_scale=fp32[3]",
         }) {
        test::expect_right(line, "rows", "vectors=8x8 rows=1 cluster=8");
    }
}
// A second output like the first, and modulations of both beside rows that are no whole vectors.
TEST(LayerNorm, TwoOutputs) {
    const struct {
        const char *line, *config;
    } kCalls[] = {
        {"layer_norm x=bf16[9,128] weight=bf16[128] out=@x out2=bf16[9,128]", "vectors=1x8 rows=8 cluster=1"},
        {"layer_norm x=fp16[600,408] weight=fp32[408] bias=fp32[408] residual=fp16[600,408] "
         "out=fp16[600,408] out2=fp16[600,408]",
         "wide"},
        {"layer_norm x=bf16[600,901] weight=fp32[901] bias=bf16[901] mod_scale=bf16[600,901] "
         "mod_shift=bf16[901] out=bf16[600,901] mod_scale2=bf16[901] out2=fp32[600,901]",
         "vectors=4x8 rows=4 cluster=1 pieces=1"},
        {"layer_norm x=bf16[3,64] mod_shift=bf16[3,64] out=fp16[3,64] mod_scale2=bf16[1] out2=bf16[3,64]",
         "vectors=1x8 rows=16 cluster=1 any"},
    };
    for (const auto& call : kCalls) test::expect_right(call.line, "rows", call.config);
}
// Longer than the largest cluster holds: read again for each pass and each output, from memory that an output may be.
TEST(LayerNorm, RowsInChunks) {
    for (const char* line : {
             "layer_norm x=bf16[1,300000] mod_scale=bf16[300000] mod_scale2=bf16[300000] out=@x "
             "out2=bf16[1,300000]",
             "layer_norm x=bf16[1,300001] weight=fp32[300001] out=fp8_e4m3[1,300001] token_scale=fp32[1]",
             "layer_norm x=bf16[1,300000] weight=fp32[300000] residual=bf16[1,300000] residual_out=@x "
             "out=bf16[1,300000]",
         }) {
        test::expect_right(line, "rows", "vectors=2x8 rows=1 cluster=8 mixed");
    }
}
#endif

// Of one column the variance is exactly 0, and so is the row: no error of its mean is left for a scale to show. A constant
// row's mean may err, and what is left of that decides the scale: any power of two that it may be is right.
TEST(LayerNorm, ScalesOfRowsWithoutVariance) {
    const Case one = Case::parse("layer_norm x=fp32[40,1] out=fp8_e4m3[40,1] group_scale=ue8m0[40,1]");
    const Case constant = Case::parse(
        "layer_norm x=fp16[4,2,1,31] weight=fp32[31] mod_scale=fp16[4,2,1,31] out=fp8_e4m3[4,2,1,31]+5 "
        "swizzled_scale=ue8m0[128,4] eps=1e-06");
    for (const Device device : test::host_devices()) {
        EXPECT_EQ(verify(one, device).why, "");
        EXPECT_EQ(verify(constant, device, 804674, Values::constant).why, "");
    }
}

}  // namespace
}  // namespace weft
