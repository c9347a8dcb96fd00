// gemm of weights of four bits that are unpacked before: what is left to multiply, for which calls, and results in the emulator.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>

#include "ops/gemm/test_call.h"
#include "ops/gemm/unpacked.h"
#include "tests/ops/emulated.h"
#include "weft/case.h"

namespace weft {
namespace {

using test::with_gemm;
using testing::HasSubstr;

std::string declines(const std::string& operands, bool wide = true) {
    return test::declines(
        operands, [&](const Gemm& op) { return gemm::unpacked_decline(op, wide, *find_device("h200")); });
}

TEST(GemmUnpacked, LeavesAProductOfNumbers) {
    with_gemm(
        "a=bf16[2,3,100]{400,130,1} b=fp4_e2m1[10,100] b_group_scale=fp8_e4m3[10,7] b_scale=fp32[1] "
        "up=fp4_e2m1[10,100] "
        "up_swizzled_scale=fp8_e4m3[128,8] bias=bf16[10] out=bf16[2,3,10]",
        [](const Gemm& op) {
            const gemm::Remade made = gemm::unpacked(op, 512);
            const Gemm& product = made.product;
            // Rows of 128 numbers, 2560 bytes a matrix.
            EXPECT_EQ(to_string(product.b), "bf16[10,100]{128,1}");
            EXPECT_EQ(to_string(product.up), "bf16[10,100]{128,1}");
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(product.b.data), 512u);
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(product.up.data), 512u + 2560u);
            EXPECT_EQ(made.bytes, 2u * 2560u);
            EXPECT_EQ(to_string(product.a), to_string(op.a));
            EXPECT_EQ(product.a.data, op.a.data);
            EXPECT_TRUE(product.b_scale && product.bias);
            EXPECT_FALSE(product.b_group_scale || product.up_swizzled_scale || product.packed() ||
                         product.scaled_within());
        });
    with_gemm(
        "a=fp4_e2m1[2,3,64] b=fp4_e2m1[5,64] a_group_scale=fp8_e4m3[2,3,4] b_swizzled_scale=ue8m0[128,4] "
        "out=fp16[2,3,5]",
        [](const Gemm& op) {
            const gemm::Remade made = gemm::unpacked(op, 256);
            EXPECT_EQ(to_string(made.product.a), "bf16[2,3,64]") << "a's dtype, where it has none of its own";
            EXPECT_EQ(to_string(made.product.b), "bf16[5,64]");
            // 640 bytes of b take three times 256.
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made.product.a.data), 256u + 768u);
            EXPECT_EQ(made.bytes, 768u + 768u);
            EXPECT_FALSE(made.product.a_group_scale || made.product.b_swizzled_scale);
        });
    with_gemm("a=fp16[70] b=fp4_e2m1[5,70] b_group_scale=fp8_e4m3[5,5] out=fp16[5]", [](const Gemm& op) {
        EXPECT_EQ(to_string(gemm::unpacked(op).product.b), "fp16[5,70]{128,1}");
    });
}

TEST(GemmUnpacked, TakesWhatHasTokensEnough) {
    const auto of = [](int m, int n, const std::string& more = "") {
        return fmt::format(
            "a=bf16[{},4096] b=fp4_e2m1[{},4096] b_group_scale=fp8_e4m3[{},256] out=bf16[{},{}] {}", m, n, n,
            m, n, more);
    };
    EXPECT_THAT(declines(of(16, 1024)), HasSubstr("too few tokens"));
    EXPECT_THAT(declines(of(64, 1024)), HasSubstr("too few tokens"));
    EXPECT_EQ(declines(of(65, 1024)), "takes it");
    EXPECT_EQ(declines(of(64, 4096)), "takes it");
    EXPECT_EQ(declines(of(4096, 4096)), "takes it");
    EXPECT_EQ(declines(of(65, 1024), false), "takes it");
    EXPECT_THAT(declines(of(64, 16)), HasSubstr("too few tokens, or products"));
    // Both matrices of a gated product are unpacked, and multiplied.
    EXPECT_EQ(
        declines(of(64, 1024, "up=fp4_e2m1[1024,4096] up_group_scale=fp8_e4m3[1024,256] activation=silu")),
        "takes it");
}

TEST(GemmUnpacked, LimitsToTheLastNumber) {
    EXPECT_THAT(declines("a=bf16[999,4096] b=bf16[4096,4096] out=bf16[999,4096]"), HasSubstr("no codes"));
    EXPECT_THAT(
        declines(
            "a=fp32[999,4096] b=fp4_e2m1[4096,4096] b_group_scale=fp8_e4m3[4096,256] out=bf16[999,4096]"),
        HasSubstr("fp32 operands"));
    EXPECT_THAT(
        declines("a=fp16[999,4096] b=fp4_e2m1[4096,4096] b_group_scale=ue8m0[4096,128] out=bf16[999,4096]"),
        HasSubstr("scale of MX"));
    EXPECT_THAT(
        declines("a=bf16[999,0] b=fp4_e2m1[4096,0] b_group_scale=fp8_e4m3[4096,0] out=bf16[999,4096]"),
        HasSubstr("k is 0"));
    EXPECT_EQ(declines("a=bf16[999,4096] b=fp4_e2m1[131072,4096] b_group_scale=fp8_e4m3[131072,256] "
                       "out=bf16[999,131072]"),
              "takes it");
    EXPECT_THAT(declines("a=bf16[999,4096] b=fp4_e2m1[131073,4096] b_group_scale=fp8_e4m3[131073,256] "
                         "out=bf16[999,131073]"),
                HasSubstr("more than 1 GiB"));
}

#if WEFT_HAS_EMULATOR
TEST(GemmUnpacked, EveryKindOfScalesAndTails) {
    for (const int k : {328, 334}) {  // loads without branches, and any
        const int groups = 21, of_mx = 11;
        const std::string a = fmt::format("a=bf16[2,100,{}]{{33600,336,1}} b=fp4_e2m1[72,{}] ", k, k),
                          out = "out=bf16[2,100,72]";
        test::expect_unpacked(fmt::format("{} b_group_scale=fp8_e4m3[72,{}] {}", a, groups, out),
                              "bf16 in 54 KiB of scratch, then wgmma: 128x");
        test::expect_unpacked(
            fmt::format("{} b_group_scale=ue8m0[72,{}]{{1,80}}+3 b_channel_scale=fp32[72] {}", a, of_mx, out),
            "wgmma");
        test::expect_unpacked(
            fmt::format(
                "{} b_swizzled_scale=fp8_e4m3[128,24] b_scale=fp32[1] up=fp4_e2m1[72,{}] "
                "up_group_scale=fp8_e4m3[72,{}] up_scale=fp32[1] bias=bf16[72] residual=bf16[2,100,72] {} "
                "activation=silu",
                a, k, groups, out),
            "bf16 in 108 KiB of scratch, then wgmma");
        test::expect_unpacked(
            fmt::format(
                "a=fp16[400,{}] b=fp4_e2m1[71,{}]{{344,1}} b_group_scale=fp8_e4m3[71,{}] out=fp32[400,71]", k,
                k, groups),
            "fp16 in 54 KiB of scratch, then mma_sync: ");
    }
}

TEST(GemmUnpacked, ActivationsToo) {
    test::expect_unpacked(
        "a=fp4_e2m1[320,336] b=fp4_e2m1[256,336] a_swizzled_scale=fp8_e4m3[384,24] a_scale=fp32[1] "
        "b_group_scale=ue8m0[256,11] out=fp16[320,256]",
        "bf16 in 432 KiB of scratch, then wgmma");
    test::expect_unpacked(
        "a=fp4_e2m1[4,80,330] b=fp4_e2m1[256,330] a_group_scale=ue8m0[4,80,11] "
        "b_swizzled_scale=ue8m0[256,12] "
        "out=fp8_e4m3[4,80,256]{21760,272,1} out_scale=fp32[1]",
        "wgmma");
}

TEST(GemmUnpacked, ValuesOfEveryKind) {
    for (const Values values : {Values::special, Values::wide, Values::tiny}) {
        test::expect_unpacked(
            "a=bf16[200,320] b=fp4_e2m1[80,320] b_group_scale=ue8m0[80,10] out=bf16[200,80]", "wgmma",
            values);
        test::expect_unpacked(
            "a=fp16[200,320] b=fp4_e2m1[80,320] b_swizzled_scale=fp8_e4m3[128,20] out=fp16[200,80]", "wgmma",
            values);
    }
}
#endif

}  // namespace
}  // namespace weft
