// gemm on wgmma where a tile's rows are tokens: which calls have such tiles, and their epilogue in the emulator.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>

#include "ops/gemm/test_call.h"
#include "ops/gemm/wgmma.h"
#include "tests/ops/emulated.h"
#include "weft/case.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

gemm::WgmmaConfig config_of(int m, int n, int k) {
    gemm::WgmmaConfig config;
    test::with_gemm(
        fmt::format("a=fp8_e4m3[{0},{2}] b=fp8_e4m3[{1},{2}] a_group_scale=fp32[{0},{4}]{{1,{0}}} "
                    "b_block_scale=fp32[{3},{4}] out=bf16[{0},{1}]",
                    m, n, k, (n + 127) / 128, (k + 127) / 128),
        [&](const Gemm& op) { config = gemm::wgmma_config(op, *find_device("h200")); });
    return config;
}

TEST(GemmByTokens, ManyTokensWhoseScalesChangeWithinTheSumAreRows) {
    EXPECT_EQ(config_of(4096, 7168, 16384).tile, (gemm::WgmmaTile{128, false, true, 256}));
    EXPECT_EQ(config_of(4096, 7168, 16384).cluster, 2);
    // Narrow tiles fill a card that wide ones leave half idle.
    EXPECT_EQ(config_of(512, 4096, 7168).tile, (gemm::WgmmaTile{128, false, true, 128}));
    EXPECT_EQ(config_of(64, 24576, 1536).tile, (gemm::WgmmaTile{64, false, true}));
    // One tile of tokens has no other to share its weights with.
    EXPECT_EQ(config_of(100, 65536, 512).cluster, 1);
}

#if WEFT_HAS_EMULATOR
// Sizes that give a tile, and what the kernel says of it. The last tiles of tokens and of features are partial.
struct Shape {
    int m, n, k;
    bool gated;
    const char* tile;

    std::string operands(const std::string& scales) const {
        const std::string up =
            gated ? fmt::format("up=fp8_e4m3[{},{}] up_block_scale=fp32[{},{}] ", n, k, blocks(n), blocks(k))
                  : "";
        return fmt::format("gemm a=fp8_e4m3[{},{}] b=fp8_e4m3[{},{}] ", m, k, n, k) + up + scales;
    }
    std::string groups() const { return fmt::format("a_group_scale=fp32[{},{}] ", m, blocks(k)); }
    std::string group_columns() const {
        return fmt::format("a_group_scale=fp32[{},{}]{{1,{}}} ", m, blocks(k), (m + 3) / 4 * 4);
    }
    std::string weights() const { return fmt::format("b_block_scale=fp32[{},{}] ", blocks(n), blocks(k)); }
    static int blocks(int size) { return (size + 127) / 128; }
};
const Shape kShapes[] = {{500, 496, 144, false, "256x128 tiles, 3 stages, pairs of blocks"},
                         {500, 368, 144, true, "256x128 tiles"},
                         {260, 48, 144, true, "128x128 tiles"},
                         {260, 112, 144, false, "128x128 tiles"}};

TEST(GemmByTokens, EveryTileTakesEveryEpilogue) {
    for (const Shape& s : kShapes) {
        const auto expect = [&](const std::string& scales, const std::string& epilogue) {
            test::expect_right(s.operands(scales) + fmt::format(fmt::runtime(epilogue), s.m, s.n), "wgmma",
                               s.tile);
        };
        const std::string both = s.groups() + s.weights(), columns = s.group_columns() + s.weights();
        expect(columns, "bias=bf16[{1}] activation=gelu_tanh out=bf16[{0},{1}]");
        expect(both, "residual=bf16[{0},{1}] gate=bf16[{1}] out=@residual activation=silu");
        expect(s.groups(),
               "b_channel_scale=fp32[{1}] bias=fp32[{1}] residual=fp32[{0},{1}] out=fp16[{0},{1}]");
        if (std::string(s.tile).starts_with("256")) continue;  // the same code, of more numbers
        expect(columns, "gate=fp16[{0},{1}] out=fp8_e4m3[{0},{1}] out_scale=fp32[1]");
        expect(both, "gate=fp32[{0},1] residual=fp16[1,{1}] out=fp8_e5m2[{0},{1}] activation=gelu_erf");
        expect(s.weights() + fmt::format("a_token_scale=fp32[{}] ", s.m),
               "residual=fp16[{0},{1}] out=bf16[{0},{1}]");
        expect(s.weights() + "a_scale=fp32[1] ", "out=fp16[{0},{1}]");
    }
}

// Scales of tokens come by fours where these are aligned; else one by one.
TEST(GemmByTokens, ScalesAtAnyStride) {
    const std::string sizes =
        "gemm a=fp8_e4m3[{0},144] b=fp8_e4m3[496,144] b_block_scale=fp32[4,2] out=bf16[{0},496] ";
    for (const char* scale : {"a_group_scale=fp32[{0},2]{{1,512}}", "a_group_scale=fp32[{0},2]{{1,512}}+1",
                              "a_group_scale=fp32[{0},2]{{1,513}}", "a_group_scale=fp32[{0},2]{{2,1024}}"}) {
        for (const int m : {500, 501})
            test::expect_right(fmt::format(fmt::runtime(sizes + scale), m), "wgmma", "256x128 tiles");
    }
}

// Either matrix first in memory; two slices of one, whose rows are interleaved or apart.
TEST(GemmByTokens, GatedWhicheverMatrixLiesFirst) {
    for (const char* up : {"b=fp8_e4m3[368,144]{288,1} up=fp8_e4m3[368,144]{288,1}",
                           "b=fp8_e4m3[368,144] up=fp8_e4m3[368,144]"}) {
        test::expect_right(
            fmt::format("gemm a=fp8_e4m3[500,144] {} b_block_scale=fp32[3,2] up_block_scale=fp32[3,2] "
                        "up_bias=fp32[368] out=bf16[500,368] activation=silu",
                        up),
            "wgmma", "256x128 tiles");
    }
}

// More stages than the ring has.
TEST(GemmByTokens, ScalesKeepStepWithTheRing) {
    test::expect_right(
        "gemm a=fp8_e4m3[260,1040] b=fp8_e4m3[112,1040] a_group_scale=fp32[260,9] b_block_scale=fp32[1,9] "
        "out=bf16[260,112]",
        "wgmma", "128x128 tiles");
}

TEST(GemmByTokens, BlocksShareATileAlongK) {
    DeviceInfo small = *find_device("h200");
    small.sms = 8;
    for (const char* operands :
         {"b=fp8_e4m3[112,4240] b_block_scale=fp32[1,34] out=bf16[100,112]",
          "b=fp8_e4m3[48,4240] b_block_scale=fp32[1,34] up=fp8_e4m3[48,4240] up_block_scale=fp32[1,34] "
          "bias=bf16[48] residual=bf16[100,48] out=bf16[100,48]"}) {
        const Outcome outcome = test::verify_on(
            std::string("gemm a=fp8_e4m3[100,4240] a_group_scale=fp32[100,34] ") + operands, small);
        EXPECT_TRUE(outcome.passed) << outcome.why;
        EXPECT_THAT(outcome.implementation, HasSubstr("128x128 tiles"));
        EXPECT_THAT(outcome.implementation, HasSubstr("k in "));
    }
}
#endif

}  // namespace
}  // namespace weft
