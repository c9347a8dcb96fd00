// gemm of int8: whole sums, and the scales of tensors, tokens and channels.
#include <gmock/gmock.h>

#include <string>

#include "ops/gemm/cublaslt.h"
#include "ops/gemm/skinny.h"
#include "ops/gemm/test_call.h"
#include "ops/gemm/wgmma.h"
#include "tests/ops/emulated.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::on_h200;
using test::rejection;
using ::testing::HasSubstr;

TEST(GemmInt8, IsOfBothOperandsAndHasNoScalesOfGroups) {
    EXPECT_THAT(rejection("gemm a=int8[6,160] b=fp8_e4m3[8,160] out=bf16[6,8]"),
                HasSubstr("gemm.b: expected"));
    EXPECT_THAT(rejection("gemm a=bf16[6,160] b=int8[8,160] out=bf16[6,8]"), HasSubstr("gemm.b: expected"));
    EXPECT_THAT(rejection("gemm a=int8[6,160] b=int8[8,160] a_group_scale=fp32[6,2] out=bf16[6,8]"),
                HasSubstr("gemm.a_group_scale: expected none beside a of int8"));
    EXPECT_THAT(rejection("gemm a=int8[6,160] b=int8[8,160] b_block_scale=fp32[1,2] out=bf16[6,8]"),
                HasSubstr("gemm.b_block_scale: expected none beside b of int8"));
}

TEST(GemmInt8, IsOfTensorCoresWhereWholeSumsDoNotOverflow) {
    const std::string most = "a=int8[99,131056] b=int8[16,131056] out=bf16[99,16]",
                      more = "a=int8[99,131072] b=int8[16,131072] out=bf16[99,16]",
                      few = "a=int8[3,131072] b=int8[16,131072] out=bf16[3,16]";
    for (const auto decline : {gemm::wgmma_decline, gemm::mma_decline}) {
        EXPECT_EQ(on_h200(most, decline), "takes it");
        EXPECT_THAT(on_h200(more, decline), HasSubstr("beyond 2^31"));
    }
    EXPECT_THAT(on_h200(few, gemm::skinny_decline), HasSubstr("beyond 2^31"));
    EXPECT_EQ(on_h200("a=int8[3,131056] b=int8[16,131056] out=bf16[3,16]", gemm::skinny_decline), "takes it");
    EXPECT_THAT(on_h200(most, gemm::cublaslt_limits), HasSubstr("no scales of rows"));
    EXPECT_THAT(on_h200("a=int8[99,60] b=int8[16,60] out=bf16[99,16]", gemm::wgmma_decline),
                HasSubstr("16-byte aligned"));
}

TEST(GemmInt8, HasTilesOfWholeSixteens) {
    for (const char* operands :
         {"a=int8[968,2048] b=int8[16384,2048] up=int8[16384,2048] out=bf16[968,16384]",
          "a=int8[968,2048] b=int8[2560,2048] out=bf16[968,2560]",
          "a=int8[7,4096] b=int8[65536,4096] out=bf16[7,65536]"})
        test::with_gemm(operands, [&](const Gemm& op) {
            const gemm::WgmmaConfig config = gemm::wgmma_config(op, *find_device("h200"));
            EXPECT_EQ(config.tile.columns() % 16, 0) << operands;
            EXPECT_GT(config.tile.tokens, 0) << operands;
            EXPECT_FALSE(config.promoted) << operands;
        });
}

#if WEFT_HAS_EMULATOR
TEST(GemmInt8, EveryKernelTakesScalesOneByOneAndTogether) {
    for (const std::string up :
         {"", "up=int8[80,144] up_scale=fp32[1] ", "up=int8[80,144] up_channel_scale=fp32[80] "}) {
        for (const std::string scales : {"", "a_scale=fp32[1] b_scale=fp32[1] ", "a_token_scale=fp32[2,7] ",
                                         "a_token_scale=fp32[2,7] b_channel_scale=fp32[80] bias=bf16[80] "}) {
            const std::string line = "gemm a=int8[2,7,144] b=int8[80,144] " + up + scales;
            for (const char* kernel : {"wgmma", "mma_sync", "fma"})
                test::expect_right(line + "gate=bf16[80] residual=bf16[2,7,80] out=bf16[2,7,80]", kernel,
                                   kernel);
            test::expect_right(line + "out=fp32[2,7,80] activation=silu", "skinny", "skinny");
        }
    }
}

// Tiles of every width, parts of k, and results of 8 bits.
TEST(GemmInt8, EveryTileIsRight) {
    for (const char* operands :
         {"a=int8[300,144] b=int8[270,144] out=fp16[300,270] activation=gelu_tanh",
          "a=int8[170,400] b=int8[136,400] a_token_scale=fp32[170] b_channel_scale=fp32[136] "
          "out=bf16[170,136]",
          "a=int8[50,2048] b=int8[136,2048] out_scale=fp32[1] out=fp8_e4m3[50,136]",
          "a=int8[130,208] b=int8[72,208] up=int8[72,208] out=bf16[130,72] activation=silu",
          "a=int8[9,528] b=int8[200,528] out=bf16[9,200]"})
        test::expect_right(std::string("gemm ") + operands, "wgmma", "wgmma");
    for (const char* operands : {"a=int8[130,200]{201,1} b=int8[70,200] out=fp32[130,70]",
                                 "a=int8[9,1001] b=int8[33,1001] out=bf16[9,33]"})
        test::expect_right(std::string("gemm ") + operands, "mma_sync", "mma_sync");
    test::expect_right("gemm a=int8[20,100] b=int8[30,100]{1,30} out=fp32[20,30]", "fma", "fma");
}
#endif

}  // namespace
}  // namespace weft
