// gemm whose sums are finished in a pass of their own: what is multiplied before, for which calls, and results in the emulator.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>

#include "ops/gemm/apart.h"
#include "ops/gemm/test_call.h"
#include "tests/ops/emulated.h"
#include "weft/case.h"

namespace weft {
namespace {

using test::with_gemm;
using testing::HasSubstr;

std::string declines(const std::string& operands) {
    return test::declines(operands,
                          [](const Gemm& op) { return gemm::apart_decline(op, *find_device("h200")); });
}

TEST(GemmApart, LeavesProductsWithoutAnythingElse) {
    with_gemm(
        "a=fp8_e4m3[2,3,64]{240,80,1} b=fp8_e4m3[10,64] up=fp8_e4m3[10,64]{72,1} a_scale=fp32[1] "
        "b_scale=fp32[1] "
        "up_scale=fp32[1] bias=bf16[10] residual=bf16[2,3,10] out=bf16[2,3,10]{36,12,1} activation=silu "
        "fast_accumulation=true",
        [](const Gemm& op) {
            const gemm::Apart made = gemm::apart(op, 512);
            EXPECT_EQ(made.stride, 12) << "rows at multiples of 16 bytes";
            EXPECT_EQ(made.bytes, 2u * 512u) << "288 bytes of each product";
            for (const Gemm* product : {&made.product, &made.up}) {
                EXPECT_EQ(to_string(product->out), "fp32[2,3,10]{36,12,1}");
                EXPECT_EQ(product->a.data, op.a.data);
                EXPECT_EQ(to_string(product->a), to_string(op.a));
                EXPECT_FALSE(product->up || product->a_scale || product->b_scale || product->bias ||
                             product->residual);
                EXPECT_EQ(product->activation, Gemm::Activation::none);
                EXPECT_TRUE(product->fast_accumulation);
            }
            EXPECT_EQ(to_string(made.product.b), to_string(op.b));
            EXPECT_EQ(to_string(made.up.b), to_string(op.up));
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made.product.out.data), 512u);
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made.up.out.data), 1024u);
        });
    with_gemm("a=bf16[70] b=bf16[8,70] out=bf16[8]", [](const Gemm& op) {
        const gemm::Apart made = gemm::apart(op);
        EXPECT_EQ(to_string(made.product.out), "fp32[8]");
        EXPECT_EQ(made.bytes, 256u);
        EXPECT_FALSE(made.up.b);
    });
}

TEST(GemmApart, TakesWhatHasProductsEnough) {
    const auto of = [](const char* dtype, int m, int n, int k) {
        return fmt::format("a={0}[{1},{3}] b={0}[{2},{3}] out={0}[{1},{2}] activation=silu", dtype, m, n, k);
    };
    // Of fp32, which no tensor core multiplies here: from 2^21 products on, or from 64 an element, of however few elements.
    EXPECT_EQ(declines(of("fp32", 256, 256, 32)), "takes it");
    EXPECT_THAT(declines(of("fp32", 256, 255, 32)), HasSubstr("too few products"));
    EXPECT_EQ(declines(of("fp32", 1, 8, 64)), "takes it");
    EXPECT_THAT(declines(of("fp32", 1, 8, 63)), HasSubstr("too few products"));
    // Where mma.sync could: from 2^27 on.
    EXPECT_EQ(declines(of("bf16", 256, 1024, 512)), "takes it");
    EXPECT_THAT(declines(of("bf16", 256, 1023, 512)), HasSubstr("too few products"));
    EXPECT_EQ(declines(of("bf16", 256, 1032, 512)), "takes it");
    EXPECT_THAT(declines(of("bf16", 256, 1028, 512)), HasSubstr("no whole vectors"));
    EXPECT_EQ(declines(of("fp32", 256, 1027, 512)), "takes it") << "fma is slower still";
}

TEST(GemmApart, LimitsToTheLastNumber) {
    EXPECT_THAT(declines("a=fp32[512,0] b=fp32[512,0] out=fp32[512,512]"), HasSubstr("k is 0"));
    EXPECT_THAT(declines("a=bf16[999,4096] b=fp4_e2m1[4096,4096] b_group_scale=fp8_e4m3[4096,256] "
                         "out=bf16[999,4096]"),
                HasSubstr("scales within a sum"));
    EXPECT_THAT(declines("a=fp8_e4m3[512,4096] b=fp8_e4m3[4096,4096] a_group_scale=fp32[512,32] "
                         "out=bf16[512,4096]"),
                HasSubstr("scales within a sum"));
    EXPECT_EQ(declines("a=fp32[16384,64] b=fp32[16384,64] out=fp32[16384,16384]"), "takes it");
    EXPECT_THAT(declines("a=fp32[16384,64] b=fp32[16385,64] out=fp32[16384,16385]"),
                HasSubstr("more than 1 GiB"));
    EXPECT_THAT(declines("a=fp32[8193,64] b=fp32[16384,64] up=fp32[16384,64] out=fp32[8193,16384]"),
                HasSubstr("more than 1 GiB"));
}

#if WEFT_HAS_EMULATOR
void expect_right(const std::string& operands, const std::string& config) {
    Case c = Case::parse("gemm " + operands);
    c.infer();
    for (const std::uint64_t order : test::kOrders) {
        Context context(kEmulator);
        const Outcome outcome = attempt(Trial{c, 7 + order, Values::usual, order, "apart"}, context);
        EXPECT_TRUE(outcome.passed) << operands << "\n" << outcome.why;
        EXPECT_THAT(outcome.implementation, HasSubstr("apart")) << operands;
        EXPECT_THAT(outcome.implementation, HasSubstr(config)) << operands;
    }
}

TEST(GemmApart, FinishesEveryEpilogue) {
    expect_right("a=fp32[9,40] b=fp32[70,40] out=fp32[9,70]", "a product in 3 KiB of scratch by fma: ");
    expect_right(
        "a=fp32[3,3,40]{132,44,1} b=fp32[71,40] up=fp32[71,40]{44,1} bias=fp32[71] up_bias=fp32[71] "
        "gate=fp32[3,1,71] "
        "residual=bf16[3,3,71] out=fp16[3,3,71] activation=gelu_erf",
        "two products in 6 KiB");
    expect_right(
        "a=bf16[33,24] b=bf16[10,24]{1,10} bias=fp32[10] residual=bf16[33,10] out=@residual "
        "activation=gelu_tanh",
        "a product");
    expect_right(
        "a=fp8_e4m3[5,32] b=fp8_e5m2[13,32] a_token_scale=fp32[5] b_channel_scale=fp32[13] "
        "up=fp8_e5m2[13,32]{48,1} "
        "up_channel_scale=fp32[13] out_scale=fp32[1] out=fp8_e4m3[5,13] activation=silu",
        "two products");
}
#endif

}  // namespace
}  // namespace weft
