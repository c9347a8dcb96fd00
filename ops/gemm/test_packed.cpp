// gemm of weights, and of activations, in four bits.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>

#include "ops/gemm/cublaslt.h"
#include "ops/gemm/policy.h"
#include "ops/gemm/skinny.h"
#include "ops/gemm/wgmma.h"
#include "tests/ops/emulated.h"
#include "tests/ops/support.h"
#include "weft/case.h"

namespace weft {
namespace {

using test::rejection;
using ::testing::HasSubstr;

TEST(GemmPacked, RejectsWhatDoesNotFit) {
    const std::string line = "gemm a=bf16[6,96] b=fp4_e2m1[10,96] out=bf16[6,10] ",
                      nv = "b_group_scale=fp8_e4m3[10,6] ";
    EXPECT_THAT(rejection(line), HasSubstr("gemm.b_group_scale: expected this or the swizzled one"));
    EXPECT_THAT(rejection(line + "b_group_scale=fp8_e4m3[10,3]"), HasSubstr("gemm.b_group_scale: expected"));
    EXPECT_THAT(rejection(line + "b_group_scale=ue8m0[10,6]"), HasSubstr("gemm.b_group_scale: expected"));
    EXPECT_THAT(rejection(line + "b_swizzled_scale=fp8_e4m3[10,8]"),
                HasSubstr("gemm.b_swizzled_scale: expected"));
    EXPECT_THAT(rejection(line + nv + "b_swizzled_scale=fp8_e4m3[128,8]"), HasSubstr("got both"));
    EXPECT_THAT(rejection(line + nv + "b_block_scale=fp32[1,1]"),
                HasSubstr("gemm.b_block_scale: expected none beside b of fp4_e2m1"));
    EXPECT_THAT(rejection(line + nv + "a_group_scale=fp8_e4m3[6,6]"),
                HasSubstr("gemm.a_group_scale: expected none beside a of bf16"));
    EXPECT_THAT(rejection("gemm a=bf16[6,96] b=bf16[10,96] out=bf16[6,10] " + nv),
                HasSubstr("gemm.b_group_scale: expected none beside b of bf16"));
    EXPECT_THAT(rejection("gemm a=fp4_e2m1[6,96] b=bf16[10,96] a_group_scale=fp8_e4m3[6,6] out=bf16[6,10]"),
                HasSubstr("gemm.b: expected a's dtype fp4_e2m1"));
    EXPECT_THAT(rejection("gemm a=fp8_e4m3[6,96] b=fp4_e2m1[10,96] out=bf16[6,10] " + nv),
                HasSubstr("gemm.b: expected a's dtype fp8_e4m3"));
    EXPECT_THAT(rejection("gemm a=fp4_e2m1[6,96] b=fp4_e2m1[10,96] out=bf16[6,10] " + nv),
                HasSubstr("gemm.a_group_scale: expected this or the swizzled one"));
    EXPECT_THAT(rejection("gemm a=bf16[6,96] b=fp4_e2m1[10,96]{4,48} out=bf16[6,10] " + nv),
                HasSubstr("gemm.b: expected fp4_e2m1 with k contiguous"));
    EXPECT_THAT(rejection(line + nv + "up=fp4_e2m1[10,96]"), HasSubstr("gemm.up_group_scale: expected this"));
    EXPECT_THAT(rejection(line + nv + "up=bf16[10,96]"), HasSubstr("gemm.up: expected b's dtype"));
    EXPECT_THAT(
        rejection("gemm a=bf16[6,16] b=fp4_e2m1[10,16] b_group_scale=fp8_e4m3[10,1] up=fp4_e2m1[10,16] "
                  "up_swizzled_scale=ue8m0[128,4] out=bf16[6,10]"),
        HasSubstr("gemm.up_swizzled_scale: expected b_group_scale's dtype fp8_e4m3"));
    EXPECT_THAT(rejection("gemm a=fp8_e4m3[2,130] b=fp8_e4m3[4,130] a_group_scale=fp32[2,2] a_scale=fp32[1] "
                          "out=bf16[2,4]"),
                HasSubstr("got both"));
}

TEST(GemmPacked, KernelsThatReadOperandsAsTheyLieDecline) {
    const DeviceInfo h200 = *find_device("h200");
    Case::parse("gemm a=bf16[8,64] b=fp4_e2m1[64,64] b_group_scale=fp8_e4m3[64,4] out=bf16[8,64]")
        .with_call(kCuda, [&](const void* call) {
            const Gemm& op = *static_cast<const Gemm*>(call);
            EXPECT_THAT(gemm::wgmma_decline(op, h200), HasSubstr("four bits"));
            EXPECT_THAT(gemm::cublaslt_limits(op, h200), HasSubstr("SM 10.0"));
            EXPECT_EQ(gemm::mma_decline(op, h200), nullptr);
            EXPECT_EQ(gemm::mma_steps(op), 1);
        });
    Case::parse("gemm a=fp16[8,64] b=fp4_e2m1[64,64] b_swizzled_scale=ue8m0[128,4] out=fp16[8,64]")
        .with_call(kCuda, [&](const void* call) {
            EXPECT_THAT(gemm::mma_decline(*static_cast<const Gemm*>(call), h200), HasSubstr("scale of MX"));
        });
    Case::parse(
        "gemm a=fp4_e2m1[8,130] b=fp4_e2m1[64,130] a_group_scale=ue8m0[8,5] b_group_scale=ue8m0[64,5] "
        "out=fp16[8,64]")
        .with_call(kCuda, [&](const void* call) {
            EXPECT_EQ(gemm::mma_decline(*static_cast<const Gemm*>(call), h200), nullptr);
            EXPECT_EQ(gemm::mma_steps(*static_cast<const Gemm*>(call)), 3);
        });
}

TEST(GemmPacked, PlainCodesAreWholeWordsThat32BitsCount) {
    const auto plain = [](std::int64_t rows, std::int64_t length, std::int64_t stride,
                          std::int64_t scale_stride) {
        gemm::ScalesAlong scales;
        scales.groups.dtype = DType::fp8_e4m3;
        scales.groups.row_stride = scale_stride;
        scales.columns_log2 = 4;
        return gemm::plain_codes(rows, length, stride, scales);
    };
    EXPECT_TRUE(plain(10, 8, 8, 1));
    EXPECT_TRUE(plain(1, 64, 64, 4));
    EXPECT_FALSE(plain(10, 0, 8, 1));
    EXPECT_FALSE(plain(10, 12, 16, 1));
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    EXPECT_TRUE(plain(2, 16, 2 * kMost - 16, 1)) << "2^31 bytes";
    EXPECT_FALSE(plain(2, 16, 2 * kMost - 8, 1));
    EXPECT_TRUE(plain(3, 16, 16, kMost / 2));
    EXPECT_FALSE(plain(3, 16, 16, kMost / 2 + 1));
}

#if WEFT_HAS_EMULATOR
// Every tile, every kind of scales, tails of groups and of vectors, more steps than are on their way at once.
TEST(GemmPacked, EveryKernelTakesEveryKindOfScales) {
    struct Scales {
        const char *b, *up;
    };
    for (const Scales& scales : {Scales{"b_group_scale=fp8_e4m3[72,9]", "up_group_scale=fp8_e4m3[72,9]"},
                                 Scales{"b_swizzled_scale=fp8_e4m3[128,12] b_scale=fp32[1]",
                                        "up_swizzled_scale=fp8_e4m3[128,12] up_scale=fp32[1]"},
                                 Scales{"b_group_scale=fp8_e4m3[72,9]{1,72}+3 b_channel_scale=fp32[72]",
                                        "up_swizzled_scale=fp8_e4m3[128,12]"},
                                 Scales{"b_group_scale=ue8m0[72,5]", "up_swizzled_scale=ue8m0[128,8]"}}) {
        for (const bool gated : {false, true}) {
            for (const int k : {134, 136}) {  // any loads, and those without branches
                const std::string line = fmt::format(
                    "gemm a=bf16[2,7,{}] b=fp4_e2m1[72,{}] {} {} bias=bf16[72] residual=bf16[2,7,72] "
                    "out=bf16[2,7,72] ",
                    k, k, scales.b,
                    gated ? fmt::format("up=fp4_e2m1[72,{}] {} activation=silu", k, scales.up) : "");
                for (const char* kernel : {"mma_sync", "fma"}) test::expect_right(line, kernel, kernel);
            }
        }
    }
    test::expect_right("gemm a=fp16[3,130] b=fp4_e2m1[70,130] b_group_scale=fp8_e4m3[70,9] out=fp32[3,70]",
                       "mma_sync", "16x64 packed");
    test::expect_right("gemm a=fp16[3,130] b=fp4_e2m1[70,130] b_group_scale=ue8m0[70,5] out=fp16[3,70]",
                       "fma", "fma");
    test::expect_right("gemm a=fp32[3,130] b=fp4_e2m1[70,130] b_group_scale=ue8m0[70,5] out=fp32[3,70]",
                       "fma", "fma");
}

TEST(GemmPacked, ActivationsToo) {
    for (const char* scales : {"a_group_scale=fp8_e4m3[39,13] b_group_scale=fp8_e4m3[72,13]",
                               "a_swizzled_scale=fp8_e4m3[128,16] a_scale=fp32[1] "
                               "b_swizzled_scale=fp8_e4m3[128,16] b_scale=fp32[1]",
                               "a_group_scale=ue8m0[39,7]{1,39} b_swizzled_scale=ue8m0[128,8]",
                               "a_group_scale=fp8_e4m3[39,13] a_scale=fp32[1] b_group_scale=ue8m0[72,7]"}) {
        const std::string line =
            fmt::format("gemm a=fp4_e2m1[39,200] b=fp4_e2m1[72,200] {} out=fp16[39,72]", scales);
        for (const char* kernel : {"mma_sync", "fma"}) test::expect_right(line, kernel, kernel);
    }
}

TEST(GemmPacked, EveryTileAndManySteps) {
    const auto expect = [](const std::string& a, int m, int n, int k, const std::string& tile) {
        test::expect_right(
            fmt::format(
                "gemm a={}[{},{}] b=fp4_e2m1[{},{}] b_swizzled_scale=fp8_e4m3[{},{}] out=bf16[{},{}]{}", a, m,
                k, n, k, (n + 127) / 128 * 128, (k / 16 + 3) / 4 * 4, m, n,
                a == "fp4_e2m1" ? fmt::format(" a_group_scale=fp8_e4m3[{},{}]", m, k / 16) : ""),
            "mma_sync", tile);
    };
    for (const char* a : {"bf16", "fp16", "fp4_e2m1"}) {
        expect(a, 9, 80, 720, "16x64 packed");  // four halves of the ring, the last one short
        expect(a, 50, 80, 720, "64x64 packed");
    }
    expect("bf16", 250, 254, 176, "128x128 packed");
    expect("fp4_e2m1", 250, 254, 80, "128x128 packed");
    expect("bf16", 5, 65, 1040, "16x64 packed split 4");
}
#endif

}  // namespace
}  // namespace weft
