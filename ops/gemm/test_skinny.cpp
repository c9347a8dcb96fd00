// gemm of few tokens: its policy, and the kernel in the emulator by its name.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>

#include "ops/gemm/skinny.h"
#include "tests/ops/emulated.h"
#include "weft/case.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

gemm::SkinnyConfig config(const std::string& operands, DeviceInfo device = *find_device("h200")) {
    gemm::SkinnyConfig made;
    Case c = Case::parse("gemm " + operands);
    c.infer();
    c.with_call(kCuda, [&](const void* call) {
        made = gemm::skinny_config(*static_cast<const Gemm*>(call), device);
    });
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
}
#endif

}  // namespace
}  // namespace weft
