// gemm on wgmma where blocks of a cluster share a tile along k: when, and the kernel in the emulator.
#include <gmock/gmock.h>

#include <string>

#include "ops/gemm/test_call.h"
#include "ops/gemm/wgmma.h"
#include "tests/ops/emulated.h"
#include "weft/case.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

#if WEFT_HAS_EMULATOR
// On a card of 132 multiprocessors, most of which a few tiles would leave idle.
TEST(GemmWgmmaParts, BlocksOfAClusterShareATileAlongK) {
    const auto expect = [](const std::string& operands, const std::string& config) {
        const Outcome outcome = test::verify_as("gemm " + operands, "h200");
        EXPECT_TRUE(outcome.passed) << operands << "\n" << outcome.why;
        EXPECT_THAT(outcome.implementation, HasSubstr(config)) << operands;
    };
    expect(
        "a=bf16[50,1032] b=bf16[136,1032] bias=fp32[136] residual=bf16[50,136] out=@residual activation=silu",
        "128x64 tiles, 8 stages, k in 8 parts");
    expect(
        "a=fp16[100,1280] b=fp16[72,1280] up=fp16[72,1280] up_bias=bf16[72] bias=fp16[72] out=bf16[100,72]",
        "k in ");
    // Rows of both weights in turn.
    expect(
        "a=fp16[20,1024] b=fp16[72,1024]{2048,1} up=fp16[72,1024]{2048,1} residual=fp16[20,72] "
        "out=fp16[20,72]",
        "k in ");
    expect(
        "a=fp8_e4m3[30,2048] b=fp8_e4m3[80,2048] a_scale=fp32[1] b_scale=fp32[1] out=fp8_e4m3[30,80] "
        "out_scale=fp32[1]",
        "k in ");
    expect("a=fp8_e4m3[5,2064] b=fp8_e4m3[64,2064] up=fp8_e4m3[64,2064] out=bf16[5,64] activation=gelu_tanh",
           "128x16 tiles, 12 stages, k in ");
    expect("a=fp8_e5m2[5,2064] b=fp8_e4m3[64,2064] out=bf16[5,64]", "128x64 tiles, 8 stages, k in ");
    expect("a=fp8_e4m3[128,2896] b=fp8_e4m3[72,2896] out=bf16[128,72] fast_accumulation=true", "k in ");
}
#endif

TEST(GemmWgmmaParts, SharesATileAlongKWhereTheCardWouldBeIdle) {
    const auto splits = [](const std::string& operands) {
        int made = 0;
        test::with_gemm(operands,
                        [&](const Gemm& op) { made = gemm::wgmma_config(op, *find_device("h200")).splits; });
        return made;
    };
    // GR00T's second product of 17 tokens: twelve tiles of features.
    EXPECT_EQ(splits("a=bf16[17,6144] b=bf16[1536,6144] out=bf16[17,1536]"), 8);
    EXPECT_EQ(splits("a=bf16[256,4304] b=bf16[1152,4304] out=bf16[256,1152]"), 4);
    // One step cannot be shared; nor would few gain what it costs that the parts meet.
    EXPECT_EQ(splits("a=bf16[17,64] b=bf16[1536,64] out=bf16[17,1536]"), 1);
    EXPECT_EQ(splits("a=bf16[17,768] b=bf16[1536,768] out=bf16[17,1536]"), 1);
    // A card that is full.
    EXPECT_EQ(splits("a=bf16[64,4096] b=bf16[28672,4096] out=bf16[64,28672]"), 1);
    // As many clusters as a card holds at once, and one more.
    EXPECT_EQ(splits("a=bf16[64,16384] b=bf16[1664,16384] out=bf16[64,1664]"), 8);
    EXPECT_EQ(splits("a=bf16[64,16384] b=bf16[1792,16384] out=bf16[64,1792]"), 4);
}

}  // namespace
}  // namespace weft
