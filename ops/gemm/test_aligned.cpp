// gemm of operands that are copied to whole rows before: what is left to multiply, for which calls, and results in the emulator.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>

#include "ops/gemm/aligned.h"
#include "ops/gemm/test_call.h"
#include "tests/ops/emulated.h"
#include "weft/case.h"

namespace weft {
namespace {

using test::with_gemm;
using testing::HasSubstr;

std::string declines(const std::string& operands, bool wide = true, const char* device = "h200") {
    return test::declines(operands, [&](const Gemm& op) {
        return gemm::aligned_decline(op, wide, gemm::InPlace::mma_sync, *find_device(device));
    });
}

TEST(GemmAligned, LeavesAProductOfCopies) {
    // Rows of 100 numbers become rows of 128, those of 99 bytes rows of 128 bytes.
    with_gemm("a=bf16[2,3,100]{390,130,1} b=bf16[10,100]{104,1} bias=bf16[10] out=bf16[2,3,10]",
              [](const Gemm& op) {
                  const gemm::Remade made = gemm::aligned(op, 512);
                  EXPECT_EQ(to_string(made.product.a), "bf16[2,3,100]{384,128,1}");
                  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made.product.a.data), 512u);
                  EXPECT_EQ(made.bytes, 6u * 256u);
                  EXPECT_EQ(made.product.b.data, op.b.data);
                  EXPECT_EQ(to_string(made.product.b), to_string(op.b));
                  EXPECT_EQ(made.product.bias.data, op.bias.data);
                  EXPECT_EQ(made.product.out.data, op.out.data);
              });
    // Of b and up both are copied, though one need not be: they keep one stride.
    with_gemm("a=bf16[3,96] b=bf16[16,96]{99,1} up=bf16[16,96]{104,1} out=bf16[3,16]", [](const Gemm& op) {
        const gemm::Remade made = gemm::aligned(op, 256);
        EXPECT_EQ(to_string(made.product.b), "bf16[16,96]{128,1}");
        EXPECT_EQ(to_string(made.product.up), "bf16[16,96]{128,1}");
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made.product.up.data), 256u + 4096u);
        EXPECT_EQ(made.product.a.data, op.a.data);
        EXPECT_EQ(made.bytes, 2u * 4096u);
    });
    // Weights of n contiguous stay so, of whatever length; a base may be what is odd.
    with_gemm("a=fp8_e4m3[3,99] b=fp8_e4m3[16,99] out=bf16[3,16]", [](const Gemm& op) {
        const gemm::Remade made = gemm::aligned(op);
        EXPECT_EQ(to_string(made.product.a), "fp8_e4m3[3,99]{128,1}");
        EXPECT_EQ(to_string(made.product.b), "fp8_e4m3[16,99]{128,1}");
        EXPECT_EQ(made.bytes, 2048u + 512u);
    });
    with_gemm("a=bf16[3,96] b=bf16[65,96]{1,65} out=bf16[3,65]", [](const Gemm& op) {
        const gemm::Remade made = gemm::aligned(op);
        EXPECT_EQ(to_string(made.product.b), "bf16[65,96]{1,128}");
        EXPECT_EQ(made.bytes, 96u * 256u);
    });
    with_gemm("a=bf16[3,96]+1 b=bf16[16,96] out=bf16[3,16]", [](const Gemm& op) {
        const gemm::Remade made = gemm::aligned(op);
        EXPECT_NE(made.product.a.data, op.a.data);
        EXPECT_EQ(made.product.b.data, op.b.data);
        EXPECT_EQ(made.bytes, 3u * 256u);
    });
    // The stride of a lone row is no stride.
    with_gemm("a=bf16[1,96]{97,1} b=bf16[16,96] out=bf16[1,16]",
              [](const Gemm& op) { EXPECT_EQ(gemm::aligned(op).bytes, 0u); });
}

TEST(GemmAligned, TakesWhatIsWorthACopy) {
    EXPECT_EQ(declines("a=bf16[2,256,588] b=bf16[1152,588] out=bf16[2,256,1152]"), "takes it");
    EXPECT_EQ(declines("a=bf16[4096,4095] b=bf16[4096,4095] out=bf16[4096,4096]"), "takes it");
    EXPECT_EQ(declines("a=bf16[999,1001] b=bf16[999,1001]{1,999} out=bf16[999,999]"), "takes it");
    EXPECT_THAT(declines("a=bf16[16,63] b=bf16[64,63] out=bf16[16,64]"), HasSubstr("too few products"));
    // Weights that are read once in few steps cost more to copy than to read where they are.
    EXPECT_THAT(declines("a=bf16[4,63] b=bf16[51200,63] out=bf16[4,51200]"), HasSubstr("too few products"));
    EXPECT_EQ(declines("a=bf16[200,588] b=bf16[256,588] out=bf16[200,256]"), "takes it");
    EXPECT_EQ(declines("a=bf16[64,4095] b=bf16[4096,4095] out=bf16[64,4096]"), "takes it");
    // Both weights of a gated product are multiplied; the library is faster in place than mma_sync.
    const std::string gated = "a=bf16[64,511] b=bf16[3000,511] up=bf16[3000,511] out=bf16[64,3000]";
    with_gemm(gated, [](const Gemm& op) {
        using gemm::InPlace;
        Gemm one = op;
        one.up = {};
        const DeviceInfo& device = *find_device("h200");
        const auto more = [&](const auto& cost) { return cost(op) - cost(one); };
        const double by_mma =
            more([&](const Gemm& g) { return gemm::unaligned_cost(g, InPlace::mma_sync, device); });
        EXPECT_NEAR(by_mma, 2.0 * 64 * 3000 * 511 / (0.47e6 * 132), 1e-3);
        EXPECT_GT(by_mma,
                  more([&](const Gemm& g) { return gemm::unaligned_cost(g, InPlace::library, device); }));
        EXPECT_GT(more([&](const Gemm& g) { return gemm::aligned_cost(g, device); }), 0);
    });
}

TEST(GemmAligned, SaysWhyNot) {
    EXPECT_THAT(declines("a=bf16[999,4096] b=bf16[4096,4096] out=bf16[999,4096]"),
                HasSubstr("begin at whole 16 bytes"));
    EXPECT_THAT(declines("a=bf16[999,4095] b=fp4_e2m1[4096,4095]{4096,1} b_group_scale=fp8_e4m3[4096,256] "
                         "out=bf16[999,4096]"),
                HasSubstr("unpacked, not copied"));
    EXPECT_THAT(declines("a=fp32[999,4095] b=fp32[4096,4095] out=fp32[999,4096]"), HasSubstr("fp32"));
    for (const char* none :
         {"a=bf16[0,63] b=bf16[64,63]+1 out=bf16[0,64]", "a=bf16[9,63] b=bf16[0,63]+1 out=bf16[9,0]",
          "a=bf16[9,0]+1 b=bf16[64,0] out=bf16[9,64]"})
        EXPECT_THAT(declines(none), HasSubstr("nothing to multiply")) << none;
    for (const char* scattered :
         {"a=bf16[999,999] b=bf16[999,999]{1999,2} out=bf16[999,999]",
          "a=bf16[999,999] b=bf16[999,999] up=bf16[999,999]{1999,2} out=bf16[999,999]",
          "a=bf16[999,999] b=bf16[999,999] up=bf16[999,999]{1,999} out=bf16[999,999]"})
        EXPECT_THAT(declines(scattered), HasSubstr("neither axis")) << scattered;
    EXPECT_THAT(declines("a=bf16[999,4095] b=bf16[4096,4095] out=bf16[999,4096]", false),
                HasSubstr("neither wgmma nor the library"));
    EXPECT_EQ(declines("a=bf16[640,4096] b=bf16[131072,4096]{4097,1} out=bf16[640,131072]"), "takes it");
    EXPECT_THAT(declines("a=bf16[640,4096] b=bf16[131073,4096]{4097,1} out=bf16[640,131073]"),
                HasSubstr("more than 1 GiB"));
}

// The library in place is faster than mma_sync, so it leaves less; and nothing where no fast one takes the copies.
TEST(GemmAligned, TheLibraryLeavesItThose) {
    const auto left = [](const std::string& operands, bool wide = true) {
        return test::declines(
            operands, [&](const Gemm& op) { return gemm::left_to_aligned(op, wide, *find_device("h200")); });
    };
    EXPECT_THAT(left("a=bf16[999,4095] b=bf16[4096,4095] out=bf16[999,4096]"), HasSubstr("soon made"));
    EXPECT_THAT(left("a=bf16[1000,4096] b=bf16[1001,4096]{1,1001} out=bf16[1000,1001]{1008,1}"),
                HasSubstr("soon made"));
    EXPECT_EQ(left("a=bf16[999,4095] b=bf16[4096,4095] out=bf16[999,4096]", false), "takes it");
    EXPECT_EQ(left("a=bf16[200,588] b=bf16[256,588] out=bf16[200,256]"), "takes it") << "mma_sync would not";
    EXPECT_EQ(left("a=bf16[999,4096] b=bf16[4096,4096] out=bf16[999,4096]"), "takes it");
}

#if WEFT_HAS_EMULATOR
void expect_aligned(const std::string& operands, const std::string& config, Values values = Values::usual) {
    test::expect_right("gemm " + operands, "aligned", config, values);
}

// Rows at multiples of 8, 4, 2 and 1 bytes, more and fewer chunks than a thread has, a last chunk in part.
TEST(GemmAligned, EveryPieceAndTail) {
    for (const int k : {332, 330, 329, 7})
        expect_aligned(fmt::format("a=bf16[2,100,{0}] b=bf16[72,{0}] bias=bf16[72] out=bf16[2,100,72]", k),
                       "KiB of scratch, then wgmma: 128x");
    for (const int k : {328, 332, 330, 329, 15})
        expect_aligned(
            fmt::format("a=fp8_e4m3[100,{0}] b=fp8_e4m3[72,{0}] a_scale=fp32[1] out=bf16[100,72]", k),
            "fp8_e4m3 in");
    expect_aligned(
        "a=int8[100,79] b=int8[72,79] a_token_scale=fp32[100] b_channel_scale=fp32[72] "
        "out=bf16[100,72]",
        "int8 in");
    expect_aligned("a=fp16[600,1030] b=fp16[72,1030] out=fp16[600,72]", "wgmma");
}

TEST(GemmAligned, OneOperandAloneOrAll) {
    expect_aligned("a=bf16[100,72]+1 b=bf16[72,72] out=bf16[100,72]", "bf16 in 25 KiB");
    expect_aligned("a=bf16[100,72] b=bf16[72,72]{75,1} out=bf16[100,72]", "bf16 in 18 KiB");
    expect_aligned(
        "a=bf16[100,70] b=bf16[72,70] up=bf16[72,70] up_bias=fp32[72] residual=bf16[100,72] out=fp16[100,72] "
        "activation=silu",
        "wgmma");
    expect_aligned(
        "a=bf16[100,72]{79,1} b=bf16[72,72] up=bf16[72,72]{80,1}+2 out=bf16[100,72] activation=gelu_tanh",
        "wgmma");
}

TEST(GemmAligned, ValuesOfEveryKind) {
    for (const Values values : {Values::special, Values::wide, Values::tiny})
        expect_aligned("a=bf16[40,77] b=bf16[80,77] out=bf16[40,80]", "wgmma", values);
}
#endif

}  // namespace
}  // namespace weft
