// layer_norm: what generated cases don't say.
#include "ops/layer_norm/layer_norm.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/ops/emulated.h"
#include "weft/case.h"
#include "weft/op.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

std::string rejection(const char* line) {
    try {
        Case::parse(line).check();
    } catch (const Error& e) {
        return e.what();
    }
    return "accepted";
}

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

#if WEFT_HAS_EMULATOR
// Three exchanges between the blocks of a cluster: a half of what they exchange by is used again.
TEST(LayerNorm, RowsOfACluster) {
    test::expect_right(
        "layer_norm x=bf16[2,65536] weight=bf16[65536] bias=bf16[65536] out=fp8_e4m3[2,65536] "
        "token_scale=fp32[2]",
        "rows", "vectors=4x8 rows=1 cluster=4");
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
// Longer than the largest cluster holds: read again for each pass and each output, from memory that an output may be.
TEST(LayerNorm, RowsInChunks) {
    for (const char* line : {
             "layer_norm x=bf16[1,300000] mod_scale=bf16[300000] mod_scale2=bf16[300000] out=@x "
             "out2=bf16[1,300000]",
             "layer_norm x=bf16[1,300001] weight=fp32[300001] out=fp8_e4m3[1,300001] token_scale=fp32[1]",
             "layer_norm x=bf16[1,300000] weight=fp32[300000] residual=bf16[1,300000] residual_out=@x "
             "out=bf16[1,300000]",
         }) {
        test::expect_right(line, "rows", "vectors=4x8 rows=1 cluster=8 mixed");
    }
}
#endif

}  // namespace
}  // namespace weft
