// gemm's scales of rows: one for each token, one for each output channel.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "ops/gemm/cublaslt.h"
#include "tests/ops/emulated.h"
#include "tests/ops/support.h"
#include "weft/case.h"

namespace weft {
namespace {

using test::rejection;
using ::testing::HasSubstr;

TEST(GemmScales, RejectsScalesOfWhatHasNone) {
    const std::string fp8 = "gemm a=fp8_e4m3[2,6,16] b=fp8_e4m3[8,16] out=bf16[2,6,8] ",
                      bf16 = "gemm a=bf16[2,6,16] b=bf16[8,16] out=bf16[2,6,8] ";
    EXPECT_THAT(rejection(bf16 + "a_token_scale=fp32[2,6]"),
                HasSubstr("gemm.a_token_scale: expected none, because a is bf16"));
    EXPECT_THAT(rejection(bf16 + "b_channel_scale=fp32[8]"),
                HasSubstr("gemm.b_channel_scale: expected none, because b is bf16"));
    EXPECT_THAT(rejection(fp8 + "a_token_scale=fp32[12]"), HasSubstr("gemm.a_token_scale: expected"));
    EXPECT_THAT(rejection(fp8 + "b_channel_scale=fp32[9]"),
                HasSubstr("gemm.b_channel_scale: expected [n=8]"));
    EXPECT_THAT(rejection(fp8 + "a_token_scale=fp32[2,6] a_scale=fp32[1]"),
                HasSubstr("expected a_scale or a_token_scale, got both"));
    EXPECT_THAT(rejection(fp8 + "b_channel_scale=fp32[8] b_scale=fp32[1]"),
                HasSubstr("expected b_scale or b_channel_scale, got both"));
    EXPECT_THAT(rejection(fp8 + "up_channel_scale=fp32[8]"), HasSubstr("expected up beside it"));
    EXPECT_THAT(rejection(fp8 + "up=fp8_e4m3[8,16] up_channel_scale=fp32[8] up_scale=fp32[1]"),
                HasSubstr("expected up_scale or up_channel_scale, got both"));
}

TEST(GemmScales, CublasltHasThoseOfTensors) {
    for (const char* scales :
         {"a_token_scale=fp32[8]", "b_channel_scale=fp32[16]", "a_scale=fp32[1] b_channel_scale=fp32[16]"}) {
        Case c = Case::parse(std::string("gemm a=fp8_e4m3[8,16] b=fp8_e4m3[16,16] out=bf16[8,16] ") + scales);
        c.with_call(kCuda, [&](const void* call) {
            EXPECT_THAT(gemm::cublaslt_limits(*static_cast<const Gemm*>(call), *find_device("h200")),
                        HasSubstr("of whole tensors"))
                << scales;
        });
    }
}

#if WEFT_HAS_EMULATOR
TEST(GemmScales, EveryKernelTakesThemOneByOneAndTogether) {
    for (const std::string up :
         {"", "up=fp8_e4m3[80,144] up_scale=fp32[1] ", "up=fp8_e4m3[80,144] up_channel_scale=fp32[80] "}) {
        for (const std::string scales :
             {"a_token_scale=fp32[2,7] ", "b_channel_scale=fp32[80] ",
              "a_scale=fp32[1] b_channel_scale=fp32[80]+1 ", "a_token_scale=fp32[2,7]+1 b_scale=fp32[1] ",
              "a_token_scale=fp32[2,7] b_channel_scale=fp32[80] bias=bf16[80] "}) {
            const std::string line = "gemm a=fp8_e4m3[2,7,144] b=fp8_e4m3[80,144] " + up + scales;
            for (const char* kernel : {"wgmma", "mma_sync", "fma"})
                test::expect_right(line + "gate=bf16[80] out=bf16[2,7,80]", kernel, kernel);
            test::expect_right(line + "out=fp32[2,7,80] activation=silu", "skinny", "skinny");
        }
    }
    test::expect_right(
        "gemm a=fp8_e5m2[33,40] b=fp8_e4m3[5,40] a_token_scale=fp32[33] b_channel_scale=fp32[5] "
        "out=fp16[33,5]",
        "fma", "fma");
}

TEST(GemmScales, TokensOfEveryTile) {
    const auto expect = [](int m, int n, const std::string& tile, bool up) {
        for (const char* fast : {"false", "true"}) {
            test::expect_right(
                fmt::format("gemm a=fp8_e4m3[{0},48] b=fp8_e4m3[{1},48]{2} a_token_scale=fp32[{0}] "
                            "b_channel_scale=fp32[{1}] out=bf16[{0},{1}] fast_accumulation={3}",
                            m, n, up ? fmt::format(" up=fp8_e4m3[{0},48] up_channel_scale=fp32[{0}]", n) : "",
                            fast),
                "wgmma", tile);
        }
    };
    expect(1021, 64, "128x256 tiles", true);
    expect(991, 64, "128x248 tiles", true);
    expect(511, 64, "128x128 tiles", true);
    expect(255, 64, "128x64 tiles", true);
    expect(15, 64, "128x16 tiles", true);
    expect(511, 512, "128x256 tiles", false);
    expect(351, 256, "128x176 tiles", false);
    expect(127, 512, "128x128 tiles", false);
    expect(63, 512, "128x64 tiles", false);
    expect(1, 512, "128x16 tiles", false);
}

TEST(GemmScales, WhereBlocksShareATile) {
    const Outcome outcome = test::verify_as(
        "gemm a=fp8_e4m3[50,2064] b=fp8_e4m3[144,2064] a_token_scale=fp32[50] b_channel_scale=fp32[144] "
        "out=bf16[50,144]",
        "h200");
    EXPECT_TRUE(outcome.passed) << outcome.why;
    EXPECT_THAT(outcome.implementation, HasSubstr("k in "));
}
#endif

}  // namespace
}  // namespace weft
