// gemm of weights of int4, whose groups have scales and may have zero points.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>

#include "ops/gemm/cublaslt.h"
#include "ops/gemm/skinny.h"
#include "ops/gemm/test_call.h"
#include "ops/gemm/tolerance.h"
#include "ops/gemm/unpacked.h"
#include "ops/gemm/wgmma.h"
#include "tests/ops/emulated.h"
#include "tests/ops/support.h"
#include "weft/op.h"

namespace weft {
namespace {

using test::on_h200;
using test::rejection;
using ::testing::HasSubstr;

TEST(GemmInt4, RejectsWhatDoesNotFit) {
    const std::string line = "gemm a=bf16[6,320] b=int4[10,320] out=bf16[6,10] ",
                      scale = "b_group_scale=bf16[10,3] ", zero = "b_group_zero=int8[10,3] ";
    EXPECT_EQ(rejection(line + scale), "accepted");
    EXPECT_EQ(rejection(line + scale + zero), "accepted");
    EXPECT_EQ(rejection(line + "b_group_scale=fp32[10,5] group=64"), "accepted");
    EXPECT_EQ(rejection(line + "b_group_scale=fp16[10,10]{1,16} b_group_zero=int8[10,10] group=32"),
              "accepted");
    EXPECT_EQ(rejection(line + "b_group_scale=fp16[10,3]{1,0}"), "accepted") << "a scale for all of a row";
    EXPECT_THAT(rejection(line), HasSubstr("gemm.b_group_scale: expected one for int4, got none"));
    EXPECT_THAT(rejection(line + "b_scale=fp32[1]"), HasSubstr("expected one for int4"));
    EXPECT_THAT(rejection(line + scale + "group=64"), HasSubstr("gemm.b_group_scale: expected"));
    EXPECT_THAT(rejection(line + "b_group_scale=bf16[10,4] group=96"),
                HasSubstr("gemm.group: expected 32, 64 or 128, got 96"));
    EXPECT_THAT(rejection(line + "b_group_scale=fp8_e4m3[10,20]"),
                HasSubstr("gemm.b_group_scale: expected dtype fp32, bf16, fp16 beside b of int4"));
    EXPECT_THAT(rejection(line + "b_swizzled_scale=ue8m0[128,12]"),
                HasSubstr("gemm.b_swizzled_scale: expected none beside b of int4"));
    EXPECT_THAT(rejection(line + scale + "b_group_zero=int8[10,5]"),
                HasSubstr("gemm.b_group_zero: expected"));
    EXPECT_THAT(rejection(line + scale + "b_group_zero=int8[10,3]{1,10}"), HasSubstr("must be dense"));
    EXPECT_THAT(rejection(line + zero), HasSubstr("gemm.b_group_zero: expected b_group_scale beside it"));
    EXPECT_THAT(rejection(line + scale + "up=int4[10,320]"),
                HasSubstr("gemm.up_group_scale: expected one for int4"));
    EXPECT_THAT(rejection(line + scale + "up=int4[10,320] up_group_scale=fp32[10,3]"),
                HasSubstr("gemm.up_group_scale: expected b_group_scale's dtype bf16"));
    EXPECT_THAT(rejection("gemm a=bf16[6,96] b=fp4_e2m1[10,96] b_group_scale=bf16[10,1] out=bf16[6,10]"),
                HasSubstr("beside b of fp4_e2m1"));
    EXPECT_THAT(rejection("gemm a=bf16[6,96] b=fp4_e2m1[10,96] b_group_scale=ue8m0[10,3] "
                          "b_group_zero=int8[10,3] out=bf16[6,10]"),
                HasSubstr("gemm.b_group_zero: expected none beside b of fp4_e2m1"));
    EXPECT_THAT(rejection("gemm a=bf16[6,96] b=bf16[10,96] b_group_scale=bf16[10,1] out=bf16[6,10]"),
                HasSubstr("gemm.b_group_scale: expected none beside b of bf16"));
    EXPECT_THAT(rejection("gemm a=fp8_e4m3[6,96] b=int4[10,96] b_group_scale=bf16[10,1] out=bf16[6,10]"),
                HasSubstr("gemm.b: expected a's dtype fp8_e4m3"));
    EXPECT_THAT(rejection("gemm a=int4[6,96] b=int4[10,96] b_group_scale=bf16[10,1] out=bf16[6,10]"),
                HasSubstr("gemm.a: expected dtype"));
    EXPECT_THAT(rejection("gemm a=bf16[6,96] b=int4[10,96]{4,48} b_group_scale=bf16[10,1] out=bf16[6,10]"),
                HasSubstr("gemm.b: expected int4 with k contiguous"));
    EXPECT_THAT(rejection("gemm a=bf16[6,95] b=int4[10,95] b_group_scale=bf16[10,1] out=bf16[6,10]"),
                HasSubstr("share a byte"));
}

TEST(GemmInt4, IsOfKernelsThatMakeNumbersOfCodes) {
    const std::string weights = "b=int4[64,256] out=fp16[8,64] ";
    const std::string of = "a=fp16[8,256] " + weights + "b_group_scale=fp16[64,2]";
    EXPECT_THAT(on_h200(of, gemm::wgmma_decline), HasSubstr("four bits"));
    EXPECT_THAT(on_h200(of, gemm::cublaslt_limits), HasSubstr("four bits"));
    EXPECT_EQ(on_h200(of, gemm::mma_decline), "takes it");
    EXPECT_EQ(on_h200(of, gemm::skinny_decline), "takes it");
    // Any place of a group's scale is one load.
    EXPECT_EQ(on_h200("a=bf16[8,256] " + weights + "b_group_scale=fp32[64,8]{1,67}+1 group=32",
                      gemm::skinny_decline),
              "takes it");
    for (const char* scale : {"bf16", "fp32"}) {
        const std::string other = fmt::format("{} b_group_scale={}[64,2]", weights, scale);
        EXPECT_THAT(on_h200("a=fp16[8,256] " + other, gemm::mma_decline), HasSubstr("every scale of bf16"));
        EXPECT_THAT(on_h200("a=fp16[8,256] " + other, gemm::skinny_decline), HasSubstr("every scale of"));
        EXPECT_EQ(on_h200("a=bf16[8,256] " + other, gemm::mma_decline), "takes it");
    }
    EXPECT_THAT(on_h200("a=fp32[8,256] " + weights + "b_group_scale=fp32[64,2]", gemm::mma_decline),
                HasSubstr("fp32 operands"));
}

TEST(GemmInt4, LeavesAProductOfNumbers) {
    test::with_gemm(
        "a=fp16[9,200] b=int4[10,200] b_group_scale=fp16[10,2] b_group_zero=int8[10,2] up=int4[10,200] "
        "up_group_scale=fp16[10,2] up_group_zero=int8[10,2] bias=fp16[10] out=fp16[9,10]",
        [](const Gemm& op) {
            const Gemm product = gemm::unpacked(op).product;
            EXPECT_EQ(to_string(product.b), "fp16[10,200]{256,1}");
            EXPECT_EQ(to_string(product.up), "fp16[10,200]{256,1}");
            EXPECT_FALSE(product.b_group_scale || product.b_group_zero || product.up_group_scale ||
                         product.up_group_zero || product.packed());
            EXPECT_TRUE(product.bias);
        });
}

TEST(GemmInt4, ToleratesARoundingOfEachWeight) {
    const auto error = [](const std::string& a, const std::string& b) {
        double found = 0;
        test::with_gemm(fmt::format("a={}[4,128] {} out=fp32[4,8]", a, b),
                        [&](const Gemm& op) { found = gemm::weight_error(op); });
        return found;
    };
    EXPECT_EQ(error("bf16", "b=int4[8,128] b_group_scale=bf16[8,1]"), 0x1p-8);
    EXPECT_EQ(error("bf16", "b=int4[8,128] b_group_scale=fp16[8,1]"), 0x1p-7) << "of the scale, too";
    EXPECT_EQ(error("fp16", "b=int4[8,128] b_group_scale=fp16[8,1]"), 0x1p-11);
    EXPECT_EQ(error("fp32", "b=int4[8,128] b_group_scale=bf16[8,1]"), 0);
    EXPECT_EQ(error("bf16", "b=fp4_e2m1[8,128] b_group_scale=ue8m0[8,4]"), 0);
    const auto beyond = [](const std::string& b, double weight) {
        bool found = false;
        test::with_gemm(fmt::format("a=fp16[4,128] {} out=fp32[4,8]", b),
                        [&](const Gemm& op) { found = gemm::beyond(op, {0, -weight}); });
        return found;
    };
    EXPECT_TRUE(beyond("b=int4[8,128] b_group_scale=fp16[8,1]", 65504));
    EXPECT_FALSE(beyond("b=int4[8,128] b_group_scale=fp16[8,1]", 64000));
    EXPECT_FALSE(beyond("b=fp16[8,128]", 65504)) << "which is a number of fp16";
}

TEST(GemmInt4, PlainZeroPointsAreThoseThat32BitsCount) {
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    const std::int8_t zero = 0;
    gemm::ScalesAlong scales;
    scales.columns_log2 = 5;
    EXPECT_TRUE(gemm::plain_codes(kMost, 64, 0, scales));
    scales.zeros = &zero;
    EXPECT_TRUE(gemm::plain_codes(kMost, 32, 0, scales));
    EXPECT_TRUE(gemm::plain_codes(kMost / 2, 64, 0, scales));
    EXPECT_FALSE(gemm::plain_codes(kMost / 2 + 1, 64, 0, scales));
}

#if WEFT_HAS_EMULATOR
// Every code of four bits less every zero point, one at a time: column c of a picks code c % 16 of a group whose zero point is
// the row's. Times a power of two all of them are numbers of fp16 and bf16, so that results are exact.
TEST(GemmInt4, EveryCodeLessEveryZeroPointIsExact) {
    constexpr std::int64_t kRows = 256, kLength = 32;
    for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
        for (const char* kernel : {"skinny", "mma_sync", "unpacked", "fma"}) {
            if (dtype == DType::fp32 && std::string(kernel) != "fma") continue;
            const std::int64_t tokens = std::string(kernel) == "unpacked" ? 32 : 16;  // enough to unpack for
            test::HostTensor a(dtype, {tokens, kLength}), b(DType::int4, {kRows, kLength}),
                scale(dtype, {kRows, 1}), zero(DType::int8, {kRows, 1}), out(DType::fp32, {tokens, kRows});
            for (std::int64_t m = 0; m < tokens; ++m) a.set(m * kLength + m, 1);
            for (std::int64_t row = 0; row < kRows; ++row) {
                for (std::int64_t k = 0; k < kLength; ++k) b.set(row * kLength + k, (k + row / 16) % 16 - 8);
                scale.set(row, 0.125);
                zero.set(row, row - 128);
            }
            Gemm op{};
            op.a = a.on(kEmulator), op.b = b.on(kEmulator), op.out = out.on(kEmulator);
            op.b_group_scale = scale.on(kEmulator), op.b_group_zero = zero.on(kEmulator);
            op.group = 32;
            Context context = context_for(*find_op("gemm"), kEmulator, kernel);
            run(op, context);
            for (std::int64_t m = 0; m < tokens; ++m) {
                for (std::int64_t row = 0; row < kRows; ++row)
                    ASSERT_EQ(out[m * kRows + row], 0.125 * (b[row * kLength + m] - (row - 128.0)))
                        << kernel << " of " << name(dtype) << ": code " << b[row * kLength + m] << " less "
                        << row - 128;
            }
        }
    }
}

// Groups of every size and dtype of scale, in rows and in columns, with and without zero points, each operand of a gated pair
// by itself; tails of groups and of vectors.
std::string weights(const char* name, int n, int k, int group, const char* scale, bool columns, bool zeros) {
    const int groups = (k + group - 1) / group;
    return fmt::format("{}=int4[{},{}] {}_group_scale={}[{},{}]{} {}", name, n, k, name, scale, n, groups,
                       columns ? fmt::format("{{1,{}}}+1", n + 3) : "",
                       zeros ? fmt::format("{}_group_zero=int8[{},{}] ", name, n, groups) : "");
}

TEST(GemmInt4, EveryKernelTakesEveryKindOfScales) {
    for (const int group : {32, 64, 128}) {
        for (const char* scale : {"bf16", "fp16", "fp32"}) {
            for (const int k : {326, 328}) {  // any loads, and those without branches
                for (const bool zeros : {false, true}) {
                    const bool gated = (group == 64) == zeros;
                    const std::string line =
                        fmt::format("gemm a=bf16[2,7,{}] {}{} bias=bf16[72] out=bf16[2,7,72] group={}", k,
                                    weights("b", 72, k, group, scale, zeros, zeros),
                                    gated ? weights("up", 72, k, group, scale, !zeros, !zeros) : "", group);
                    for (const char* kernel : {"mma_sync", "fma"}) test::expect_right(line, kernel, kernel);
                }
            }
        }
    }
    test::expect_right("gemm a=fp16[3,130] b=int4[70,130] b_group_scale=fp16[70,2] out=fp32[3,70]",
                       "mma_sync", "16x64 packed");
    test::expect_right("gemm a=fp16[3,130] b=int4[70,130] b_group_scale=bf16[70,2] out=fp16[3,70]", "fma",
                       "fma");
    test::expect_right("gemm a=fp32[3,130] b=int4[70,130] b_group_scale=fp32[70,2] out=fp32[3,70]", "fma",
                       "fma");
}

TEST(GemmInt4, EveryTileAndManySteps) {
    const auto expect = [](const char* a, int m, int n, int k, int group, const std::string& tile) {
        test::expect_right(fmt::format("gemm a={}[{},{}] {} out=bf16[{},{}] group={}", a, m, k,
                                       weights("b", n, k, group, a, false, true), m, n, group),
                           "mma_sync", tile);
    };
    for (const char* a : {"bf16", "fp16"}) {
        expect(a, 9, 80, 720, 128, "16x64 packed");
        expect(a, 50, 80, 720, 64, "64x64 packed");
        expect(a, 250, 254, 176, 32, "128x128 packed");
    }
    expect("bf16", 5, 65, 1040, 128, "16x64 packed split 4");
}

TEST(GemmInt4, OfFewTokens) {
    for (const int m : {1, 7, 9, 16}) {
        for (const int pieces : {1, 3, 5, 9, 17}) {  // of 32 codes
            const int k = 32 * pieces, n = 8 * pieces + m % 3 - 1, group = 32 << m % 3;
            for (const char* a : {"bf16", "fp16"}) {
                test::expect_right(fmt::format("gemm a={}[{},{}] {} out=fp32[{},{}] group={}", a, m, k,
                                               weights("b", n, k, group, a, m == 9, m > 1), m, n, group),
                                   "skinny", m > 8 ? "16 tokens" : "8 tokens");
            }
        }
    }
    for (const Values values : {Values::usual, Values::special, Values::tiny}) {
        test::expect_right(
            "gemm a=bf16[3,160] b=int4[70,160] b_group_scale=fp32[70,3] up=int4[70,160]{192,1} "
            "up_group_scale=fp32[70,3]{1,70} up_group_zero=int8[70,3] up_bias=bf16[70] out=fp16[3,70] "
            "activation=silu group=64",
            "skinny", "8 tokens", values);
        test::expect_right(
            "gemm a=bf16[2,5,160]{880,176,1} b=int4[72,160] b_group_scale=fp16[72,5]{1,80} "
            "b_group_zero=int8[72,5] b_channel_scale=fp32[72] residual=bf16[2,5,72] out=@residual group=32",
            "skinny", "16 tokens", values);
    }
    const Outcome parts = test::verify_as(
        "gemm a=bf16[1,8224] b=int4[40,8224] b_group_scale=bf16[40,65] b_group_zero=int8[40,65] "
        "out=bf16[1,40]",
        "h200", "skinny");
    EXPECT_TRUE(parts.passed) << parts.why;
    EXPECT_THAT(parts.implementation, HasSubstr("32 parts of 4 blocks"));
}

TEST(GemmInt4, Unpacked) {
    for (const int k : {328, 334}) {
        for (const char* scale : {"bf16", "fp32"}) {
            test::expect_unpacked(fmt::format("a=bf16[2,100,{}]{{33600,336,1}} {}{} bias=bf16[72] "
                                              "out=bf16[2,100,72] activation=silu group=64",
                                              k, weights("b", 72, k, 64, scale, true, false),
                                              weights("up", 72, k, 64, scale, false, true)),
                                  "bf16 in 108 KiB of scratch, then wgmma");
        }
        test::expect_unpacked(fmt::format("a=fp16[400,{}] b=int4[71,{}]{{344,1}} b_group_scale=fp16[71,3] "
                                          "b_group_zero=int8[71,3] out=fp32[400,71]",
                                          k, k),
                              "fp16 in 54 KiB of scratch, then mma_sync: ");
    }
    for (const Values values : {Values::special, Values::wide, Values::tiny})
        test::expect_unpacked(
            "a=bf16[200,320] b=int4[80,320] b_group_scale=bf16[80,10] b_group_zero=int8[80,10] "
            "out=bf16[200,80] group=32",
            "then wgmma", values);
}
#endif

}  // namespace
}  // namespace weft
