// What gemm asks of cuBLASLt, and what it says that the library does not do: to the last number.
#include <gmock/gmock.h>

#include <string>

#include "ops/gemm/cublaslt.h"
#include "ops/gemm/test_call.h"

namespace weft {
namespace {

using test::with_gemm;
using testing::HasSubstr;

std::string cublaslt(const std::string& operands, const char* device = "h200") {
    std::string why;
    with_gemm(operands, [&](const Gemm& op) {
        const char* said = gemm::cublaslt_limits(op, *find_device(device));
        why = said == nullptr ? "takes it" : said;
    });
    return why;
}

TEST(GemmCublasltLimits, DtypesThatGoTogether) {
    const std::string bf16 = "a=bf16[8,16] b=bf16[16,16] ", fp8 = "a=fp8_e4m3[8,16] b=fp8_e4m3[16,16] ";
    for (const std::string& operands : {
             bf16 + "bias=bf16[16] out=bf16[8,16]",
             bf16 + "residual=bf16[8,16] out=bf16[8,16]",
             bf16 + "bias=fp32[16] residual=fp32[8,16] out=fp32[8,16]",
             bf16 + "out=fp32[8,16]",
             fp8 + "bias=bf16[16] out=bf16[8,16]",
             fp8 + "bias=bf16[16] residual=fp32[8,16] out=fp32[8,16]",
             fp8 + "bias=fp16[16] out=fp16[8,16]",
             fp8 + "out=fp32[8,16]",
             std::string("a=fp8_e4m3[8,16] b=fp8_e5m2[16,16] out=bf16[8,16]"),
             std::string("a=fp8_e5m2[8,16] b=fp8_e4m3[16,16] out=bf16[8,16]"),
         }) {
        EXPECT_EQ(cublaslt(operands), "takes it") << operands;
    }
    EXPECT_EQ(cublaslt(fp8 + "out=bf16[8,16]", "rtx4090"), "takes it");
    EXPECT_EQ(cublaslt(bf16 + "out=bf16[8,16]", "a100"), "takes it");
    EXPECT_THAT(cublaslt(bf16 + "b_scale=fp32[1] out=bf16[8,16]"), HasSubstr("scales are for fp8"));
    EXPECT_THAT(cublaslt(fp8 + "bias=fp32[16] out=fp32[8,16]"), HasSubstr("its bias is bf16"));
    EXPECT_THAT(cublaslt(fp8 + "bias=fp16[16] out=bf16[8,16]"), HasSubstr("bias has out's dtype"));
    EXPECT_THAT(cublaslt(fp8 + "residual=bf16[8,16] out=fp32[8,16]"), HasSubstr("residual has out's dtype"));
    EXPECT_THAT(cublaslt(bf16 + "bias=bf16[16] out=fp32[8,16]"), HasSubstr("bias has out's dtype"));
    EXPECT_THAT(cublaslt("a=fp8_e4m3[8,16] b=fp8_e4m3[16,16] out=fp8_e4m3[8,16]"), HasSubstr("fp8 out"));
}

// Kernels of its own for Hopper share any rows along k; others do not, nor do these where the copy engine can't read.
TEST(GemmCublasltLimits, FewRowsOfLargeWeightsWithABias) {
    const auto said = [](int m, int k, const char* type, bool bias, const char* device = "a100") {
        const std::string rows = std::to_string(m), depth = std::to_string(k), t = type;
        return cublaslt("a=" + t + "[" + rows + "," + depth + "] b=" + t + "[2048," + depth + "] " +
                            (bias ? "bias=bf16[2048]" : "residual=bf16[" + rows + ",2048]") + " out=bf16[" +
                            rows + ",2048]",
                        device);
    };
    for (const bool bias : {false, true}) {
        EXPECT_THAT(said(9, 4096, "bf16", bias), HasSubstr("along k")) << bias;
        EXPECT_THAT(said(16, 4096, "bf16", bias), HasSubstr("along k")) << bias;
        EXPECT_EQ(said(8, 4096, "bf16", bias), "takes it") << "skinny's before";
        EXPECT_EQ(said(17, 4096, "bf16", bias), "takes it") << bias;
        EXPECT_EQ(said(16, 2048, "bf16", bias), "takes it") << "8 MiB of weights";
        EXPECT_EQ(said(16, 4096, "bf16", bias, "h200"), "takes it") << bias;
        EXPECT_EQ(said(16, 8192, "fp8_e4m3", bias, "h200"), "takes it") << bias;
        EXPECT_THAT(said(16, 4097, "bf16", bias, "h200"), HasSubstr("along k")) << bias;
    }
    EXPECT_EQ(cublaslt("a=bf16[16,4096] b=bf16[2048,4096] out=bf16[16,2048]", "a100"), "takes it");
}

// Of its kernels for Hopper alone it is known that they round once, and these read whole 16 bytes.
TEST(GemmCublasltLimits, AGeluAndABiasBesideAResidualNeedKernelsThatRoundOnce) {
    const auto gelu = [](std::string operands, const char* device = "h200") {
        return cublaslt(operands + " activation=gelu_tanh", device);
    };
    const auto both = [](std::string a, std::string residual, std::string out, const char* device = "h200") {
        return cublaslt("a=" + a + " b=bf16[24,16] bias=bf16[24] residual=" + residual + " out=" + out,
                        device);
    };
    const std::string rows = "a=bf16[8,16] b=bf16[24,16] out=bf16[8,24]";
    EXPECT_EQ(gelu(rows), "takes it");
    EXPECT_EQ(gelu(rows + " bias=bf16[24]"), "takes it");
    EXPECT_EQ(gelu("a=fp16[8,16] b=fp16[24,16]{1,24} out=fp16[8,24]"), "takes it");
    EXPECT_EQ(gelu("a=fp8_e4m3[8,16] b=fp8_e4m3[32,16] bias=bf16[32] out=bf16[8,32]"), "takes it");
    EXPECT_THAT(gelu(rows, "a100"), HasSubstr("before the GELU"));
    EXPECT_THAT(gelu(rows, "b200"), HasSubstr("before the GELU"));
    EXPECT_THAT(gelu("a=bf16[8,16]{20,1} b=bf16[24,16] out=bf16[8,24]"), HasSubstr("before the GELU"));
    EXPECT_THAT(gelu("a=bf16[8,16] b=bf16[24,16]{20,1} out=bf16[8,24]"), HasSubstr("before the GELU"));
    EXPECT_THAT(gelu("a=bf16[8,16] b=bf16[24,16]{1,28} out=bf16[8,24]"), HasSubstr("before the GELU"));
    EXPECT_THAT(gelu("a=bf16[8,16] b=bf16[24,16] out=bf16[8,24]+1"), HasSubstr("before the GELU"));
    for (const char* lone :
         {"a=bf16[1,17] b=bf16[24,17]{1,24} out=bf16[1,24]", "a=bf16[1,16] b=bf16[25,16] out=bf16[1,25]",
          "a=bf16[1] b=bf16[24,1] out=bf16[24]"})
        EXPECT_THAT(gelu(lone), HasSubstr("before the GELU")) << lone;
    EXPECT_EQ(both("bf16[8,16]", "bf16[8,24]", "bf16[8,24]"), "takes it");
    EXPECT_EQ(both("bf16[8,16]", "bf16[8,24]", "@residual"), "takes it");
    EXPECT_THAT(both("bf16[8,16]", "bf16[8,24]", "bf16[8,24]", "a100"), HasSubstr("between"));
    EXPECT_THAT(both("bf16[8,16]", "bf16[8,24]{28,1}", "bf16[8,24]"), HasSubstr("between"));
    EXPECT_THAT(both("bf16[8,16]", "bf16[8,24]", "bf16[8,24]{28,1}"), HasSubstr("between"));
    EXPECT_EQ(cublaslt("a=fp32[8,16] b=fp32[24,16] bias=fp32[24] residual=fp32[8,24] out=fp32[8,24]", "a100"),
              "takes it");
}

TEST(GemmCublasltLimits, RowsThatOverlapOrAreNotContiguous) {
    for (const char* operands : {
             "a=bf16[8,16] b=bf16[24,16]{1,24} out=bf16[8,24]",
             "a=bf16[8,16] b=bf16[24,16]{1,25} out=bf16[8,24]",
             "a=bf16[8,16]{17,1} b=bf16[24,16]{17,1} out=bf16[8,24]{25,1}",
             "a=bf16[1,16]+1 b=bf16[1,16]{3,1} out=bf16[1,1]",
             "a=bf16[1,16]+1 b=bf16[1,16]{3,5} out=bf16[1,1]",
         }) {
        EXPECT_EQ(cublaslt(operands), "takes it") << operands;
    }
    for (const char* operands : {
             "a=bf16[8,16]{15,1} b=bf16[24,16] out=bf16[8,24]",
             "a=bf16[8,16] b=bf16[24,16]{15,1} out=bf16[8,24]",
             "a=bf16[8,16] b=bf16[24,16]{1,23} out=bf16[8,24]",
             "a=bf16[8,16] b=bf16[24,16] residual=bf16[8,24]{23,1} out=bf16[8,24]",
         }) {
        EXPECT_THAT(cublaslt(operands), HasSubstr("rows overlap")) << operands;
    }
    EXPECT_THAT(cublaslt("a=bf16[8,16] b=bf16[24,16]{16,2} out=bf16[8,24]"), HasSubstr("neither axis"));
}

TEST(GemmCublasltLimits, DeclinesResidualsOfBetterAlignedRowsThanOut) {
    for (const char* operands :
         {"a=fp16[33,100]{102,1} b=fp16[64,100] residual=fp16[33,64] out=fp16[33,64]{71,1}",
          "a=bf16[8,100]{102,1} b=bf16[64,100] residual=bf16[8,64] out=bf16[8,64]{66,1}",
          "a=bf16[8,100]{102,1} b=bf16[64,100] residual=bf16[8,64]{72,1} out=bf16[8,64]{68,1}"})
        EXPECT_THAT(cublaslt(operands), HasSubstr("better aligned")) << operands;
    for (const char* operands :
         {"a=bf16[8,100]{102,1} b=bf16[64,100] residual=bf16[8,64]{65,1} out=bf16[8,64]",
          "a=bf16[8,100]{102,1} b=bf16[63,100] residual=bf16[8,63] out=bf16[8,63]",
          "a=bf16[1,100] b=bf16[63,100] residual=bf16[1,63] out=bf16[1,63]{65,1}",
          "a=bf16[8,100]{102,1} b=bf16[64,100] out=bf16[8,64]{65,1}"})
        EXPECT_EQ(cublaslt(operands), "takes it") << operands;
}

// Its kernels for such rows are slow; where there is no other for them it takes them all the same.
TEST(GemmCublasltLimits, LeavesRowsOfNoWhole16BytesToWgmma) {
    for (const char* operands : {"a=bf16[99,64] b=bf16[63,64] out=bf16[99,63]",
                                 "a=bf16[99,64] b=bf16[60,64] bias=bf16[60] out=bf16[99,60]",
                                 "a=fp16[99,64] b=fp16[64,64] out=fp16[99,64]{65,1}",
                                 "a=fp16[99,64] b=fp16[64,64] out=fp16[99,64]+1"})
        EXPECT_THAT(cublaslt(operands), HasSubstr("wgmma takes them")) << operands;
    for (const char* operands :
         {"a=bf16[99,64] b=bf16[64,64] out=bf16[99,64]", "a=bf16[99,63] b=bf16[63,63] out=bf16[99,63]",
          "a=bf16[99,64] b=bf16[63,64]{1,63} out=bf16[99,63]", "a=fp32[99,64] b=fp32[63,64] out=fp32[99,63]"})
        EXPECT_EQ(cublaslt(operands), "takes it") << operands;
}

TEST(GemmCublasltLimits, Fp8InMultiplesOf16) {
    const std::string scales = "a_scale=fp32[1] b_scale=fp32[1] ";
    for (const std::string& operands : {
             "a=fp8_e4m3[8,32]{48,1} b=fp8_e4m3[48,32]{64,1} " + scales +
                 "bias=bf16[48] residual=fp32[8,48]{52,1} out=fp32[8,48]{56,1}",
             "a=fp8_e4m3[8,32]+16 b=fp8_e4m3[48,32]+32 " + scales + "out=bf16[8,48]+8",
             std::string("a=fp8_e4m3[1,32] b=fp8_e4m3[48,32] out=bf16[1,48]"),
             std::string("a=fp8_e4m3[1,32] b=fp8_e4m3[48,32] residual=bf16[1,48] out=bf16[1,48]"),
         }) {
        EXPECT_EQ(cublaslt(operands), "takes it") << operands;
    }
    for (const char* operands : {
             "a=fp8_e4m3[8,16] b=fp8_e4m3[24,16] out=bf16[8,24]",
             "a=fp8_e4m3[8,16] b=fp8_e4m3[17,16] out=bf16[8,17]{24,1}",
             "a=fp8_e4m3[8,17]{32,1} b=fp8_e4m3[16,17]{32,1} out=bf16[8,16]",
         }) {
        EXPECT_THAT(cublaslt(operands), HasSubstr("multiples of 16")) << operands;
    }
    for (const char* operands : {
             "a=fp8_e4m3[8,16]{24,1} b=fp8_e4m3[16,16] out=bf16[8,16]",
             "a=fp8_e4m3[2,16]{24,1} b=fp8_e4m3[16,16] out=bf16[2,16]",
             "a=fp8_e4m3[8,16]+8 b=fp8_e4m3[16,16] out=bf16[8,16]",
             "a=fp8_e4m3[8,16] b=fp8_e4m3[16,16]{24,1} out=bf16[8,16]",
             "a=fp8_e4m3[8,16] b=fp8_e4m3[16,16]+1 out=bf16[8,16]",
             "a=fp8_e4m3[8,16] b=fp8_e4m3[16,16] out=bf16[8,16]{20,1}",
             "a=fp8_e4m3[8,16] b=fp8_e4m3[16,16] out=bf16[8,16]+4",
             "a=fp8_e4m3[8,16] b=fp8_e4m3[16,16] residual=bf16[8,16]{20,1} out=bf16[8,16]",
             "a=fp8_e4m3[8,16] b=fp8_e4m3[16,16] residual=bf16[8,16]+4 out=bf16[8,16]",
             "a=fp8_e4m3[8,16] b=fp8_e4m3[16,16] bias=bf16[16]+1 out=bf16[8,16]",
         }) {
        EXPECT_THAT(cublaslt(operands), HasSubstr("every row to begin")) << operands;
    }
    EXPECT_THAT(cublaslt("a=fp8_e4m3[8,16] b=fp8_e4m3[16,16] b_scale=fp32[1]+1 out=bf16[8,16]"),
                HasSubstr("fp8 scales at multiples of 16 bytes"));
}

TEST(GemmCublasltLimits, TakesWhatItDocuments) {
    EXPECT_EQ(cublaslt("a=bf16[968,2048] b=bf16[2560,2048] out=bf16[968,2560]"), "takes it");
    EXPECT_EQ(cublaslt("a=bf16[968,2048] b=bf16[2560,2048]{1,2560} out=bf16[968,2560]"), "takes it");
    EXPECT_EQ(cublaslt("a=bf16[7,33] b=bf16[5,33] residual=bf16[7,5] out=@residual"), "takes it");
    EXPECT_EQ(cublaslt("a=fp32[7,33] b=fp32[5,33] out=fp32[7,5]"), "takes it");
    EXPECT_EQ(cublaslt("a=fp8_e4m3[11,64] b=fp8_e4m3[32,64] a_scale=fp32[1] b_scale=fp32[1] "
                       "residual=bf16[11,32] out=@residual fast_accumulation=true"),
              "takes it");
    EXPECT_EQ(cublaslt("a=fp8_e5m2[11,64] b=fp8_e4m3[32,64] bias=bf16[32] out=fp32[11,32]"), "takes it");
}

TEST(GemmCublasltLimits, SaysWhatItDoesNot) {
    const auto declines = [](const char* rest, const char* why) {
        EXPECT_THAT(cublaslt(rest), HasSubstr(why)) << rest;
    };
    declines("a=bf16[8,0] b=bf16[16,0] out=bf16[8,16]", "k is 0");
    declines("a=bf16[8,16] b=bf16[16,16] up=bf16[16,16] out=bf16[8,16]", "one product");
    declines("a=bf16[8,16] b=bf16[16,16] out=bf16[8,16] activation=silu", "SiLU");
    declines("a=bf16[8,16] b=bf16[16,16] out=bf16[8,16] activation=gelu_erf", "tanh form");
    declines("a=bf16[8,17] b=bf16[16,17] out=bf16[8,16] activation=gelu_tanh", "before the GELU");
    declines("a=bf16[8,16] b=bf16[16,16] residual=bf16[8,16] out=bf16[8,16] activation=gelu_tanh",
             "residual before its GELU");
    declines("a=bf16[8,16] b=bf16[16,16] out=fp32[8,16] activation=gelu_tanh", "not exact to fp32");
    declines("a=bf16[8,16] b=bf16[16,16] a_scale=fp32[1] out=bf16[8,16]", "scales are for fp8");
    declines("a=bf16[8,16] b=bf16[16,16] out=fp16[8,16]", "operands' dtype or fp32");
    declines("a=bf16[8,16] b=bf16[16,16] residual=fp32[8,16] out=bf16[8,16]", "residual has out's dtype");
    declines("a=bf16[8,16] b=bf16[16,16] bias=fp32[16] out=bf16[8,16]", "bias has out's dtype");
    declines("a=bf16[8,17] b=bf16[16,17] bias=bf16[16] residual=bf16[8,16] out=@residual",
             "between residual and bias");
    declines("a=bf16[8,16] b=bf16[16,16]{40,2} out=bf16[8,16]", "neither axis of b");
    declines("a=bf16[8,16]{0,1} b=bf16[16,16] out=bf16[8,16]", "rows overlap");
    declines("a=fp8_e4m3[8,16] b=fp8_e4m3[16,16]{1,16} out=bf16[8,16]", "k contiguous");
    declines("a=fp8_e4m3[32,16] b=fp8_e4m3[16,16] out=fp8_e4m3[32,16]", "no plan for an fp8 out");
    declines("a=fp8_e4m3[8,24] b=fp8_e4m3[16,24] out=bf16[8,16]", "multiples of 16");
    declines("a=fp8_e4m3[8,16]+1 b=fp8_e4m3[16,16] out=bf16[8,16]", "multiple of 16 bytes");
    declines("a=fp8_e4m3[8,16] b=fp8_e4m3[16,16] a_scale=fp32[1]+1 out=bf16[8,16]", "multiples of 16 bytes");
    declines("a=fp8_e5m2[8,16] b=fp8_e5m2[16,16] out=bf16[8,16]", "e5m2 by e5m2");
    declines("a=fp8_e4m3[8,16] b=fp8_e4m3[16,16] out_scale=fp32[1] out=fp8_e4m3[8,16]", "output scale");
    EXPECT_THAT(cublaslt("a=fp8_e4m3[8,16] b=fp8_e4m3[16,16] out=bf16[8,16]", "a100"), HasSubstr("SM 8.9"));
}

}  // namespace
}  // namespace weft
