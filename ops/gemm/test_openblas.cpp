// gemm by OpenBLAS: problems of several panels, and operands that it takes as they lie.
#include <gmock/gmock.h>

#include "ops/gemm/openblas_library.h"
#include "verify/trial.h"
#include "verify/verify.h"

namespace weft {
namespace {

void expect_right(const std::string& operands, Values values = Values::usual) {
    if (gemm::find_sgemm() == nullptr) GTEST_SKIP() << "libopenblas is not here";
    Case c = Case::parse("gemm " + operands);
    c.infer();
    const Outcome outcome = attempt({c, 3, values, 0, "openblas"}, kCpu);
    EXPECT_TRUE(outcome.passed) << operands << "\n  " << outcome.why;
    EXPECT_EQ(outcome.implementation, "openblas fp32 panels of 16 MiB, sgemm");
}

// A panel is 2^22 elements.
TEST(GemmOpenblas, SeveralPanelsOfEitherOperand) {
    expect_right("a=fp32[2,65536]{65600,1} b=fp32[70,65536] bias=fp32[70] out=fp32[2,70]{72,1}");
    expect_right("a=bf16[70,65536] b=bf16[2,65536]{1,2} residual=fp32[70,2] out=bf16[70,2]");
    expect_right("a=fp32[70,65536] b=fp32[2,65536] residual=fp16[70,2]{3,1} out=fp16[70,2]{4,1}");
    expect_right("a=fp32[3,2] b=fp32[2100000,2] out=bf16[3,2100000]");
}

TEST(GemmOpenblas, RowsThatOverlapOrStandStill) {
    expect_right("a=fp32[5,8]{4,1} b=fp32[3,8] out=fp32[5,3]");
    expect_right("a=fp32[5,8]{0,1} b=fp32[3,8]{0,1} out=fp32[5,3]");
    expect_right("a=fp32[5,8]{8,1} b=fp32[3,8]{9,1} out=fp32[5,3]");
    expect_right("a=fp32[1,8] b=fp32[1,8]{3,1} out=fp32[1,1]");
}

TEST(GemmOpenblas, EveryEpilogue) {
    for (const std::string activation : {"none", "gelu_tanh", "gelu_erf"}) {
        for (const std::string out : {"fp32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2"}) {
            const std::string scale = out.starts_with("fp8") ? "out_scale=fp32[1] " : "";
            for (const Values values : {Values::usual, Values::special, Values::ties})
                expect_right(
                    "a=fp8_e4m3[9,40] b=fp8_e5m2[17,40] a_scale=fp32[1] b_scale=fp32[1] bias=bf16[17] " +
                        scale + "residual=bf16[9,17]{20,1} out=" + out + "[9,17] activation=" + activation,
                    values);
        }
    }
}

}  // namespace
}  // namespace weft
