// gemm's scales of rows, one for each token or output channel, and of groups of columns and blocks of weights.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "ops/gemm/cublaslt.h"
#include "tests/ops/combined.h"
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

TEST(GemmScales, RejectsScalesOfGroupsThatDoNotFit) {
    const std::string fp8 = "gemm a=fp8_e4m3[2,6,160] b=fp8_e4m3[130,160] out=bf16[2,6,130] ";
    EXPECT_THAT(rejection(fp8 + "a_group_scale=fp32[2,6,1]"), HasSubstr("gemm.a_group_scale: expected"));
    EXPECT_THAT(rejection(fp8 + "a_group_scale=fp32[2,6,2]{100,7,1}"), HasSubstr("rows of one stride"));
    EXPECT_THAT(rejection(fp8 + "b_block_scale=fp32[1,2]"), HasSubstr("gemm.b_block_scale: expected"));
    EXPECT_THAT(rejection(fp8 + "a_group_scale=fp32[2,6,2] a_token_scale=fp32[2,6]"), HasSubstr("got both"));
    EXPECT_THAT(rejection(fp8 + "a_group_scale=fp32[2,6,2] a_scale=fp32[1]"), HasSubstr("got both"));
    EXPECT_THAT(rejection(fp8 + "b_block_scale=fp32[2,2] b_scale=fp32[1]"), HasSubstr("got both"));
    EXPECT_THAT(rejection(fp8 + "b_block_scale=fp32[2,2] b_channel_scale=fp32[130]"), HasSubstr("got both"));
    EXPECT_THAT(rejection(fp8 + "up_block_scale=fp32[2,2]"), HasSubstr("expected up beside it"));
    EXPECT_THAT(rejection("gemm a=bf16[6,160] b=bf16[8,160] out=bf16[6,8] a_group_scale=fp32[6,2]"),
                HasSubstr("gemm.a_group_scale: expected none beside a of bf16"));
}

TEST(GemmScales, CublasltHasThoseOfTensors) {
    for (const char* scales : {"a_group_scale=fp32[8,1]", "b_block_scale=fp32[1,1]", "a_token_scale=fp32[8]",
                               "b_channel_scale=fp32[16]", "a_scale=fp32[1] b_channel_scale=fp32[16]"}) {
        Case c = Case::parse(std::string("gemm a=fp8_e4m3[8,16] b=fp8_e4m3[16,16] out=bf16[8,16] ") + scales);
        c.with_call(kCuda, [&](const void* call) {
            EXPECT_THAT(gemm::cublaslt_limits(*static_cast<const Gemm*>(call), *find_device("h200")),
                        HasSubstr("of whole tensors"))
                << scales;
        });
    }
}

#if WEFT_HAS_EMULATOR
using test::Words;

TEST(GemmScales, EveryKernelTakesThemOneByOneAndTogether) {
    for (const auto& [up, scales] :
         test::combined(Words{"", "up=fp8_e4m3[80,144] up_scale=fp32[1] ",
                              "up=fp8_e4m3[80,144] up_channel_scale=fp32[80] "},
                        Words{"a_token_scale=fp32[2,7] ", "b_channel_scale=fp32[80] ",
                              "a_scale=fp32[1] b_channel_scale=fp32[80]+1 ",
                              "a_token_scale=fp32[2,7]+1 b_scale=fp32[1] ",
                              "a_token_scale=fp32[2,7] b_channel_scale=fp32[80] bias=bf16[80] "})) {
        const std::string line = "gemm a=fp8_e4m3[2,7,144] b=fp8_e4m3[80,144] " + up + scales;
        for (const char* kernel : {"wgmma", "mma_sync", "fma"})
            test::expect_right(line + "gate=bf16[80] out=bf16[2,7,80]", kernel, kernel);
        test::expect_right(line + "out=fp32[2,7,80] activation=silu", "skinny", "skinny");
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

// Those of a alone, of weights alone, both, and with the other kinds of scales; in rows, in columns, and apart from
// each other.
TEST(GemmScales, EveryKernelTakesThoseOfGroupsAndBlocks) {
    for (const auto& [up, scales] : test::combined(
             Words{"", "up=fp8_e4m3[208,272] up_block_scale=fp32[2,3] ",
                   "up=fp8_e4m3[208,272] up_scale=fp32[1] "},
             Words{"a_group_scale=fp32[2,7,3] ", "b_block_scale=fp32[2,3] ",
                   "a_group_scale=fp32[2,7,3]{7,1,16}+1 b_block_scale=fp32[2,3]{1,2} bias=bf16[208] ",
                   "a_group_scale=fp32[2,7,3]{70,10,2} b_channel_scale=fp32[208] ",
                   "a_token_scale=fp32[2,7] b_block_scale=fp32[2,3]{11,3}+1 fast_accumulation=true "})) {
        const std::string line = "gemm a=fp8_e4m3[2,7,272] b=fp8_e4m3[208,272] " + up + scales;
        for (const char* kernel : {"wgmma", "mma_sync", "fma"})
            test::expect_right(line + "gate=bf16[208] out=bf16[2,7,208]", kernel, kernel);
    }
    test::expect_right(
        "gemm a=fp8_e5m2[33,140] b=fp8_e4m3[5,140] a_group_scale=fp32[33,2] b_block_scale=fp32[1,2] "
        "out=fp16[33,5]",
        "fma", "fma");
    test::expect_right(
        "gemm a=fp8_e4m3[133,130] b=fp8_e4m3[129,130] a_group_scale=fp32[133,2] b_block_scale=fp32[2,2] "
        "out=fp32[133,129] activation=silu",
        "mma_sync", "64x64");
}

TEST(GemmScales, GroupsOfEveryTile) {
    const auto expect = [](int m, int n, const std::string& tile, bool up) {
        test::expect_right(
            fmt::format(
                "gemm a=fp8_e4m3[{0},400] b=fp8_e4m3[{1},400]{2} a_group_scale=fp32[{0},4] "
                "b_block_scale=fp32[{3},4] out=bf16[{0},{1}]",
                m, n,
                up ? fmt::format(" up=fp8_e4m3[{},400] up_block_scale=fp32[{},4]", n, (n + 127) / 128) : "",
                (n + 127) / 128),
            "wgmma", tile);
    };
    expect(511, 64, "128x128 tiles", true);
    expect(511, 512, "256x128 tiles", true);
    expect(63, 64, "128x64 tiles", true);
    expect(15, 192, "128x16 tiles", true);
    expect(511, 512, "256x128 tiles", false);
    expect(127, 512, "128x128 tiles", false);
    expect(63, 512, "128x64 tiles", false);
    expect(1, 640, "128x16 tiles", false);
}

// More stages than the ring has, and more tiles than clusters: the scales keep step with the panels, and with tiles whose
// pair has no features.
TEST(GemmScales, GroupsKeepStepWithTheRing) {
    for (const char* sizes :
         {"a=fp8_e4m3[40,4240] b=fp8_e4m3[272,4240] a_group_scale=fp32[40,34] b_block_scale=fp32[3,34] "
          "out=bf16[40,272]",
          "a=fp8_e4m3[300,528] b=fp8_e4m3[1296,528] a_group_scale=fp32[300,5]{1,300} "
          "b_block_scale=fp32[11,5] out=bf16[300,1296]"}) {
        test::expect_right(std::string("gemm ") + sizes, "wgmma", "groups scaled");
    }
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
