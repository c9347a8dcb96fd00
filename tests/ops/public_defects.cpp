// What public kernels are known to do wrong, one test each: races, tails that are lost, limits that nobody checks,
// padding that is left as it was. The cases are those on which such a kernel fails.
#include <gmock/gmock.h>

#include <cmath>

#include "ops/activation/activation.h"
#include "ops/attention/attention.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/nms/nms.h"
#include "ops/quantize/quantize.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"
#include "tests/ops/support.h"
#include "verify/verify.h"

namespace weft {
namespace {

using test::HostTensor;

// Every host device agrees with the reference; what an op does not write, and what it reads before it was written, shows
// too (verify runs a case over two kinds of poison).
void agree(std::initializer_list<const char*> lines) {
    for (const char* line : lines) {
        for (const Device device : test::host_devices())
            EXPECT_EQ(verify(Case::parse(line), device).why, "") << line;
    }
}

// Threads that read the verdicts on earlier boxes while other blocks still make them: a chain in which each box overlaps
// the next, over several blocks of boxes.
TEST(PublicDefects, RacingNms) {
    constexpr int kN = 600;
    for (const Device device : test::host_devices()) {
        HostTensor boxes(DType::fp32, {kN, 4}), scores(DType::fp32, {kN}), keep(DType::int64, {kN}),
            count(DType::int32, {1});
        for (int i = 0; i < kN; ++i) {
            boxes.set(i * 4, i * 0.25);
            boxes.set(i * 4 + 2, i * 0.25 + 1);
            boxes.set(i * 4 + 3, 1);
            scores.set(i, kN - i);
        }
        run(Nms{.boxes = boxes.on(device),
                .scores = scores.on(device),
                .keep = keep.on(device),
                .count = count.on(device)});
        EXPECT_EQ(count[0], kN / 2);
        for (int i = 0; i < kN / 2; ++i) ASSERT_EQ(keep[i], 2 * i) << i;
    }
}

// (e^2u − 1) / (e^2u + 1) in half precision is ∞/∞ from about 4 on; an argument that is clamped to the range of e^x gives
// the clamp's value beyond it.
TEST(PublicDefects, NanOfHalfGelu) {
    for (const Device device : test::host_devices()) {
        HostTensor x(DType::fp16, {4}, {4.03125, 6, 11.5, 30000}), out(DType::fp16, {4});
        run(Activate{.x = x.on(device), .out = out.on(device), .activation = Activation::gelu_tanh});
        for (int i = 0; i < 4; ++i) EXPECT_NEAR(out[i], x[i], x[i] * 0x1p-9) << x[i];
    }
}

// Vectors of two, four or eight whose last part nobody handles: sizes just beyond each, in every family that has vectors.
TEST(PublicDefects, LostOddTails) {
    agree({"residual_add x=fp16[1,1021] residual=fp16[1,1021] out=@residual",
           "activation x=fp16[1,1021] out=@x activation=gelu_tanh",
           "gated_activation gate=bf16[1,1021] up=bf16[1,1021] out=bf16[1,1021]",
           "gated_activation x=fp16[3,22] out=fp8_e4m3[3,11] scale=fp32[1] activation=gelu_tanh",
           "quantize x=fp16[1,1027] out=fp8_e4m3[1,1027] scale=fp32[1]",
           "copy x=fp32[1,1021] out=fp16[1,1021]", "rms_norm x=bf16[3,33] weight=bf16[33] out=bf16[3,33]",
           "layer_norm x=fp16[3,33] weight=fp16[33] bias=fp16[33] out=fp16[3,33]",
           "reduce x=fp16[2,1029] out=fp32[2] kind=sum", "histogram x=int32[1027] counts=int32[256] bins=256",
           "embedding ids=int32[3] table=fp32[9,13] out=fp32[3,13]"});
}

// One warp a row that holds 1024 columns: the rest of the row stayed as it was.
TEST(PublicDefects, SoftmaxBeyond1024Columns) {
    agree(
        {"softmax x=fp16[2,1025] out=@x", "softmax x=fp16[3,1500] out=@x", "softmax x=bf16[1,5000] out=@x"});
}

// 8 values a thread of 256: rows beyond 2048 were wrong without a word.
TEST(PublicDefects, NormsBeyond2048Columns) {
    agree({"rms_norm x=fp16[2,2049] out=fp8_e4m3[2,2049] scale=fp32[1]",
           "rms_norm x=bf16[1,4097] residual=bf16[1,4097] residual_out=@residual out=fp8_e4m3[1,4097] "
           "scale=fp32[1]"});
}

// Lanes that hold no pair take part in a rotation all the same: heads whose pairs do not fill a warp, and heads that turn
// in part.
TEST(PublicDefects, RotaryOfPartialWarps) {
    agree({"rope x=bf16[1,3,2,72] out=bf16[1,3,2,72]", "rope x=bf16[1,3,2,80] out=@x pairs=interleaved",
           "rope x=bf16[1,3,1,6] out=bf16[1,3,1,6]",
           "rope x=bf16[1,3,2,128] out=bf16[1,3,2,128] rotary_dim=48",
           "qk_norm_rope q=bf16[3,2,72] k=bf16[3,1,72] q_out=bf16[3,2,72] k_out=bf16[3,1,72] rotary_dim=24"});
}

// An exponent of two integers divided is 0, so that every pair turned by the same angle.
TEST(PublicDefects, RotaryFrequenciesOfIntegers) {
    for (const Device device : test::host_devices()) {
        HostTensor x(DType::fp32, {1, 1, 1, 8}, {1, 0, 1, 0, 1, 0, 1, 0}), out(DType::fp32, {1, 1, 1, 8});
        run(Rope{.x = x.on(device), .out = out.on(device), .pairs = Rope::Pairs::interleaved, .start = 1});
        for (int pair = 0; pair < 4; ++pair)
            EXPECT_NEAR(out[2 * pair], std::cos(std::pow(10000.0, -pair / 4.0)), 1e-6) << pair;
    }
}

// More than one head of keys indexed the table beyond its end.
TEST(PublicDefects, SeveralHeadsOfKeysInASplit) {
    agree(
        {"qkv_split_rope qkv=fp16[3,128] q=fp16[3,4,16] k_cache=fp16[9,2,16] v_cache=fp16[9,2,16] "
         "cos=fp32[9,8] sin=fp32[9,8] cache_offset=2"});
}

// Scales of rows and groups that pad a tile: what was there before reached products as NaN.
TEST(PublicDefects, PaddingScalesAreWritten) {
    for (const Device device : test::host_devices()) {
        HostTensor x(DType::bf16, {3, 48}), codes(DType::fp4_e2m1, {3, 48}),
            scales(DType::fp8_e4m3, {128, 4});
        for (int i = 0; i < 3 * 48; ++i) x.set(i, 1 + i % 5);
        for (int i = 0; i < 128 * 4; ++i) scales.set(i, 448);
        run(Quantize{.x = x.on(device), .out = codes.on(device), .swizzled_scale = scales.on(device)});
        int written = 0;
        for (int i = 0; i < 128 * 4; ++i) written += scales[i] != 0;
        EXPECT_EQ(written, 3 * 3);
    }
    agree({"rms_norm x=bf16[3,80] out=fp4_e2m1[3,80] swizzled_scale=fp8_e4m3[128,8]",
           "gated_activation x=bf16[5,96] out=fp4_e2m1[5,48] swizzled_scale=fp8_e4m3[128,4]",
           "scale_layout linear=fp8_e4m3[3,3] to_swizzled=fp8_e4m3[128,4]"});
}

// Scores padded to a multiple of 8 keys, of which the padding was not masked: it took part in the softmax.
TEST(PublicDefects, UnmaskedPadColumns) {
    constexpr int kKeys = 5, kDim = 16;
    for (const Device device : test::host_devices()) {
        // All true scores are far below 0, where a column of zeros would take all of the weight.
        HostTensor q(DType::fp16, {1, 1, 1, kDim}), k(DType::fp16, {1, kKeys, 1, kDim}),
            v(DType::fp16, {1, kKeys, 1, kDim}), out(DType::fp16, {1, 1, 1, kDim});
        for (int i = 0; i < kDim; ++i) q.set(i, 8);
        for (int i = 0; i < kKeys * kDim; ++i) k.set(i, -4), v.set(i, 3);
        run(Attention{.q = q.on(device), .k = k.on(device), .v = v.on(device), .out = out.on(device)});
        for (int i = 0; i < kDim; ++i) EXPECT_NEAR(out[i], 3, 0.01) << i;
    }
}

// A variance in fp32 as E[x²] − mean² has no digit left where the mean is large beside the spread.
TEST(PublicDefects, VarianceByDifferenceOfSquares) {
    for (const Device device : test::host_devices()) {
        HostTensor x(DType::fp32, {1, 64}), out(DType::fp32, {1, 64});
        for (int i = 0; i < 64; ++i) x.set(i, 10000 + (i % 2));
        run(LayerNorm{.x = x.on(device), .out = out.on(device), .eps = 1e-6f});
        for (int i = 0; i < 64; ++i) EXPECT_NEAR(out[i], i % 2 ? 1 : -1, 1e-3) << i;
    }
}

// An eps that was taken and not used: with 1 beside squares of 1/3, rows are half as long.
TEST(PublicDefects, EpsOfAnFp8NormIsUsed) {
    for (const Device device : test::host_devices()) {
        HostTensor x(DType::fp16, {1, 8}), out(DType::fp8_e4m3, {1, 8});
        for (int i = 0; i < 8; ++i) x.set(i, (i % 2 ? -1 : 1) * std::sqrt(1.0 / 3));
        run(LayerNorm{.x = x.on(device), .out = out.on(device), .eps = 1});
        for (int i = 0; i < 8; ++i) EXPECT_EQ(out[i], i % 2 ? -0.5 : 0.5) << i;
    }
}

}  // namespace
}  // namespace weft
