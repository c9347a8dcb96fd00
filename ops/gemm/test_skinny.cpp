// gemm of few tokens: its policy, and the kernel in the emulator by its name.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>

#include "ops/gemm/skinny.h"
#include "ops/gemm/test_call.h"
#include "tests/ops/emulated.h"
#include "weft/case.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

gemm::SkinnyConfig config(const std::string& operands, DeviceInfo device = *find_device("h200")) {
    gemm::SkinnyConfig made;
    test::with_gemm(operands, [&](const Gemm& op) { made = gemm::skinny_config(op, device); });
    return made;
}

TEST(GemmSkinny, CutsRowsAndKUntilTheCardIsBusy) {
    using Config = gemm::SkinnyConfig;
    // 128 blocks of 32 rows for 132 multiprocessors.
    EXPECT_EQ(config("a=bf16[1,4096] b=bf16[4096,4096] out=bf16[1,4096]"), (Config{1, 1, 1}));
    // 192 would be one and a half for each; 96 of twice the rows are faster.
    EXPECT_EQ(config("a=bf16[1,4096] b=bf16[6144,4096] out=bf16[1,6144]"), (Config{1, 2, 1}));
    // Few rows: clusters share k. A device without clusters has one block for each 32 rows.
    const std::string few = "a=bf16[1,4096] b=bf16[1024,4096] out=bf16[1,1024]";
    EXPECT_EQ(config(few), (Config{1, 1, 4}));
    DeviceInfo alone = *find_device("h200");
    alone.max_cluster = 1;
    EXPECT_EQ(config(few, alone), (Config{1, 1, 1}));
    // No part without a chunk.
    EXPECT_EQ(config("a=bf16[1,64] b=bf16[1024,64] out=bf16[1,1024]").k_parts(), 1);
    EXPECT_LE(config("a=bf16[1,256] b=bf16[1024,256] out=bf16[1,1024]").k_parts(), 2);
    EXPECT_LE(config("a=bf16[9,256] b=bf16[1024,256] out=bf16[9,1024]").k_parts(), 4);
    EXPECT_EQ(config("a=bf16[8,64] b=bf16[64,64] out=bf16[8,64]").token_tiles, 1);
    EXPECT_EQ(config("a=bf16[9,64] b=bf16[64,64] out=bf16[9,64]").token_tiles, 2);
}

TEST(GemmSkinny, OfCodesTakesWhatItsLoadsFind) {
    const DeviceInfo h200 = *find_device("h200");
    const auto declines = [&](const std::string& operands) {
        std::string why;
        test::with_gemm(operands, [&](const Gemm& op) {
            const char* said = gemm::skinny_decline(op, h200);
            why = said == nullptr ? "takes it" : said;
        });
        return why;
    };
    const std::string a = "a=bf16[8,64] b=fp4_e2m1[40,64] out=bf16[8,40] ", lie = "do not lie together";
    EXPECT_EQ(declines(a + "b_group_scale=fp8_e4m3[40,4]"), "takes it");
    EXPECT_EQ(declines(a + "b_group_scale=fp8_e4m3[40,4]{6,1}+2"), "takes it");
    EXPECT_EQ(declines(a + "b_swizzled_scale=fp8_e4m3[128,4]"), "takes it");
    EXPECT_EQ(declines(a + "b_group_scale=ue8m0[40,2]{1,40}+3"), "takes it");
    EXPECT_THAT(declines(a + "b_group_scale=fp8_e4m3[40,4]{5,1}"), HasSubstr(lie));
    EXPECT_THAT(declines(a + "b_group_scale=fp8_e4m3[40,4]+1"), HasSubstr(lie));
    EXPECT_THAT(declines(a + "b_group_scale=fp8_e4m3[40,4]{1,40}"), HasSubstr(lie));
    EXPECT_THAT(
        declines(a + "b_group_scale=fp8_e4m3[40,4] up=fp4_e2m1[40,64] up_group_scale=fp8_e4m3[40,4]{1,40}"),
        HasSubstr(lie));
    EXPECT_THAT(declines("a=bf16[8,48] b=fp4_e2m1[40,48] b_group_scale=fp8_e4m3[40,3] out=bf16[8,40]"),
                HasSubstr("no whole"));
    EXPECT_THAT(
        declines(
            "a=fp4_e2m1[8,64] b=fp4_e2m1[40,64] a_group_scale=fp8_e4m3[8,4] b_group_scale=fp8_e4m3[40,4] "
            "out=bf16[8,40]"),
        HasSubstr("tokens are numbers"));
    EXPECT_THAT(declines("a=fp16[8,64] b=fp4_e2m1[40,64] b_group_scale=ue8m0[40,2] out=bf16[8,40]"),
                HasSubstr("scale of MX"));
    // A chunk is a line of codes.
    const std::string few = "b_group_scale=fp8_e4m3[1024,32] out=bf16[1,1024]";
    EXPECT_LE(config("a=bf16[1,512] b=fp4_e2m1[1024,512] " + few).k_parts(), 2);
}

TEST(GemmSkinny, ParksEveryWarpsSums) {
    for (const int tiles : {1, 2}) {
        for (const int row_warps : {1, 2, 4, 8}) {
            const gemm::SkinnyConfig c{tiles, row_warps, 2};
            EXPECT_EQ(c.parked_floats(), 8 / row_warps * tiles * 8 * (32 * row_warps + 4));
            EXPECT_EQ(c.k_parts(), 16 / row_warps);
            EXPECT_LE(c.parked_floats() * 4 * gemm::SkinnyConfig::kBlocks, 100 * 1024);
        }
    }
}

#if WEFT_HAS_EMULATOR
void expect_right(const std::string& operands, const std::string& config, Values values = Values::usual) {
    test::expect_right("gemm " + operands, "skinny", config, values);
}

// The emulator's card has four multiprocessors.
TEST(GemmSkinny, TailsOfEveryAxis) {
    for (const std::string dtype : {"bf16", "fp16", "fp8_e4m3"}) {
        const int whole = dtype == "fp8_e4m3" ? 16 : 8;  // elements of 16 bytes
        for (const int m : {1, 7, 8, 9, 16}) {
            for (const int pieces : {1, 3, 4, 15, 17, 33}) {
                const int k = pieces * whole, n = 8 * pieces + m % 3 - 1;
                expect_right(
                    fmt::format("a={}[{},{}] b={}[{},{}] out=fp32[{},{}]", dtype, m, k, dtype, n, k, m, n),
                    "");
            }
        }
    }
}

TEST(GemmSkinny, EveryEpilogue) {
    for (const std::string activation : {"none", "gelu_tanh", "gelu_erf", "silu"}) {
        for (const std::string extra :
             {"", "bias=fp16[70] residual=bf16[3,70] ", "bias=fp32[70] residual=fp32[3,70]{80,1} "}) {
            for (const std::string up : {"", "up=bf16[70,64] ", "up=bf16[70,64]{136,1} up_bias=bf16[70] "}) {
                const std::string line = "a=bf16[3,64] b=bf16[70,64] " + up + extra;
                expect_right(line + "out=fp16[3,70] activation=" + activation, "");
                expect_right(line + "out=fp8_e4m3[3,70] activation=" + activation, "", Values::special);
            }
        }
    }
    expect_right("a=bf16[2,5,64]{400,80,1} b=bf16[72,64] residual=bf16[2,5,72] out=@residual", "16 tokens");
}

// Codes of four bits: pieces that fill no step, both layouts of both kinds of scales, each operand of a gated pair by itself.
TEST(GemmSkinny, WeightsOfFourBits) {
    for (const int m : {1, 7, 9, 16}) {
        for (const int pieces : {1, 3, 5, 9, 17}) {  // of 32 codes
            const int k = 32 * pieces, n = 8 * pieces + m % 3 - 1;
            const std::string of =
                fmt::format("a={{}}[{},{}] b=fp4_e2m1[{},{}] {{}} out=fp32[{},{}] ", m, k, n, k, m, n);
            const int rows = (n + 127) / 128 * 128;
            expect_right(fmt::format(fmt::runtime(of), "bf16",
                                     fmt::format("b_group_scale=fp8_e4m3[{},{}]", n, 2 * pieces)),
                         "");
            expect_right(
                fmt::format(fmt::runtime(of), "bf16",
                            fmt::format("b_swizzled_scale=ue8m0[{},{}]", rows, (pieces + 3) / 4 * 4)),
                "");
            expect_right(fmt::format(fmt::runtime(of), "fp16",
                                     fmt::format("b_swizzled_scale=fp8_e4m3[{},{}] b_scale=fp32[1]", rows,
                                                 (2 * pieces + 3) / 4 * 4)),
                         "");
        }
    }
    for (const Values values : {Values::usual, Values::special, Values::tiny}) {
        expect_right(
            "a=bf16[3,160] b=fp4_e2m1[70,160] b_swizzled_scale=fp8_e4m3[128,12] up=fp4_e2m1[70,160]{192,1} "
            "up_group_scale=fp8_e4m3[70,10]{16,1} up_bias=bf16[70] out=fp16[3,70] activation=silu",
            "8 tokens", values);
        expect_right(
            "a=bf16[2,5,160]{880,176,1} b=fp4_e2m1[72,160] b_group_scale=ue8m0[72,5]{1,80}+3 "
            "b_channel_scale=fp32[72] "
            "residual=bf16[2,5,72] out=@residual",
            "16 tokens", values);
    }
}

// On a card of 132 multiprocessors: warps and blocks share rows along k in every number.
TEST(GemmSkinny, PartsOfKMeet) {
    const auto expect = [](const std::string& operands, const std::string& config) {
        const Outcome outcome = test::verify_as("gemm " + operands, "h200");
        EXPECT_TRUE(outcome.passed) << operands << "\n" << outcome.why;
        EXPECT_THAT(outcome.implementation, HasSubstr("skinny")) << operands;
        EXPECT_THAT(outcome.implementation, HasSubstr(config)) << operands;
    };
    expect("a=bf16[1,8200] b=bf16[40,8200] out=bf16[1,40]", "parts of 8 blocks");
    expect("a=fp16[12,2056] b=fp16[40,2056] up=fp16[40,2056] residual=fp16[12,40] out=fp32[12,40]",
           "parts of ");
    expect("a=bf16[2,264] b=bf16[4000,264] bias=bf16[4000] out=bf16[2,4000] activation=silu", "k in ");
    expect("a=bf16[3,64] b=bf16[9000,64] out=bf16[3,9000]", "256 rows a block, all of k");
    expect("a=bf16[1,8224] b=fp4_e2m1[40,8224] b_group_scale=fp8_e4m3[40,514] out=bf16[1,40]",
           "32 parts of 4 blocks");
    expect(
        "a=bf16[12,8224] b=fp4_e2m1[40,8224] b_swizzled_scale=ue8m0[128,260] up=fp4_e2m1[40,8224] "
        "up_group_scale=ue8m0[40,257] residual=bf16[12,40] out=fp32[12,40]",
        "parts of ");
}
#endif

}  // namespace
}  // namespace weft
