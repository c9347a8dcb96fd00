// gemm's gate and residual, whose rows belong to those of out by a map: every kind of map, by every implementation.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "ops/gemm/cublaslt.h"
#include "ops/gemm/test_call.h"
#include "ops/gemm/tolerance.h"
#include "ops/gemm/wgmma.h"
#include "tests/ops/combined.h"
#include "tests/ops/emulated.h"
#include "tests/ops/support.h"
#include "verify/fuzz.h"
#include "weft/case.h"
#include "weft/memory.h"

namespace weft {
namespace {

using test::rejection;
using test::with_gemm;
using ::testing::HasSubstr;

TEST(GemmBeside, RejectsRowsThatDoNotBroadcast) {
    const std::string call = "gemm a=bf16[2,6,16] b=bf16[8,16] out=bf16[2,6,8] ";
    for (const char* shape : {"[9]", "[3,8]", "[2,5,8]", "[2,4,1,8]", "[1,2,6,8]"}) {
        EXPECT_THAT(rejection(call + "gate=bf16" + shape), HasSubstr("gemm.gate: expected")) << shape;
        EXPECT_THAT(rejection(call + "residual=bf16" + shape), HasSubstr("gemm.residual: expected")) << shape;
    }
    EXPECT_THAT(rejection(call + "gate=fp8_e4m3[8]"), HasSubstr("gemm.gate: expected dtype fp32"));
    EXPECT_THAT(rejection("gemm a=bf16[4,16] b=bf16[8,16] residual=bf16[1,8] out=@residual"),
                HasSubstr("gemm"));
}

// (1 · 2 + 1) · 3 + 5, where any other order gives another number.
TEST(GemmBeside, TheGateMultipliesBeforeTheResidualIsAdded) {
    for (const Device device : devices_here()) {
        if (device.type == DeviceType::cuda) continue;
        std::vector<float> a = {1}, b = {2}, bias = {1}, gate = {3}, residual = {5}, out = {0};
        const auto one = [&](std::vector<float>& data, auto shape) {
            return Tensor(data.data(), DType::fp32, shape, device);
        };
        using Shape = std::initializer_list<std::int64_t>;
        Gemm op{};
        op.a = one(a, Shape{1, 1}), op.b = one(b, Shape{1, 1}), op.out = one(out, Shape{1, 1});
        op.bias = one(bias, Shape{1}), op.gate = one(gate, Shape{1}), op.residual = one(residual, Shape{1});
        run(op);
        EXPECT_EQ(out[0], 14) << name(device.type);
    }
}

TEST(GemmBeside, CublasltTakesNoGateAndResidualsThatAreMatrices) {
    const auto limits = [](const std::string& operands) {
        std::string why;
        with_gemm("a=bf16[2,8,16] b=bf16[16,16] out=bf16[2,8,16] " + operands, [&](const Gemm& op) {
            const char* said = gemm::cublaslt_limits(op, *find_device("h200"));
            why = said == nullptr ? "takes it" : said;
        });
        return why;
    };
    EXPECT_EQ(limits("residual=bf16[2,8,16]"), "takes it");
    EXPECT_EQ(limits("residual=bf16[2,8,16]{192,24,1}"), "takes it");
    EXPECT_THAT(limits("gate=bf16[16]"), HasSubstr("no gate"));
    EXPECT_THAT(limits("gate=bf16[16] residual=bf16[2,8,16]"), HasSubstr("no gate"));
    for (const char* residual : {"[16]", "[2,16]", "[1,8,16]", "[2,8,1]", "[2,8,16]{256,24,1}"})
        EXPECT_THAT(limits(std::string("residual=bf16") + residual), HasSubstr("is a matrix")) << residual;
}

TEST(GemmBeside, WhatTheCopyEngineBringsAndHowLongAGateLasts) {
    const auto carries = [](const std::string& operands) {
        bool carried = false;
        with_gemm("a=bf16[2,8,16] b=bf16[16,16] " + operands,
                  [&](const Gemm& op) { carried = gemm::wgmma_carries(op, gemm::problem(op)); });
        return carried;
    };
    EXPECT_TRUE(carries("residual=fp16[2,8,16] out=bf16[2,8,16]"));
    EXPECT_TRUE(carries("residual=bf16[2,8,16]{192,24,1} out=bf16[2,8,16]"));
    EXPECT_FALSE(carries("out=bf16[2,8,16]"));
    EXPECT_FALSE(carries("residual=fp32[2,8,16] out=bf16[2,8,16]"));
    EXPECT_FALSE(carries("residual=bf16[2,8,16] out=fp8_e4m3[2,8,16]"));
    EXPECT_FALSE(carries("residual=bf16[2,8,16]{160,20,1} out=bf16[2,8,16]")) << "rows of 40 bytes";
    EXPECT_FALSE(carries("residual=bf16[2,8,16]+4 out=bf16[2,8,16]"));
    EXPECT_FALSE(carries("residual=bf16[1,8,16] out=bf16[2,8,16]"));
    EXPECT_FALSE(carries("residual=bf16[16] out=bf16[2,8,16]"));
    EXPECT_FALSE(carries("residual=bf16[2,8,1] out=bf16[2,8,16]"));
    const auto lasts = [](const std::string& gate) {
        std::int64_t run = 0;
        with_gemm("a=bf16[2,8,16] b=bf16[16,16] out=bf16[2,8,16] gate=fp32" + gate,
                  [&](const Gemm& op) { run = gemm::gate_run(op); });
        return run;
    };
    EXPECT_EQ(lasts("[16]"), 16);
    EXPECT_EQ(lasts("[1]"), 16);
    EXPECT_EQ(lasts("[2,16]"), 8);
    EXPECT_EQ(lasts("[2,1,1]"), 8);
    EXPECT_EQ(lasts("[2,4,1,16]"), 2);
    EXPECT_EQ(lasts("[2,8,16]"), 1);
    EXPECT_EQ(lasts("[1,8,16]"), 1);
    with_gemm("a=bf16[1,16] b=bf16[16,16] gate=bf16[1,16] out=bf16[1,16]",
              [](const Gemm& op) { EXPECT_EQ(gemm::gate_run(op), 1); });
}

// What cuBLASLt may round between product and residual nobody may beside a gate, which it does not take.
TEST(GemmBeside, AGatedResidualIsRoundedOnce) {
    Gemm op{};
    op.out.dtype = DType::bf16;
    const gemm::Value x{2.0, 0};
    EXPECT_GT(gemm::plus_residual(op, x, 1).error, 0x1p-8);
    op.gate.rank = 1;
    EXPECT_LT(gemm::plus_residual(op, x, 1).error, 0x1p-21);
}

#if WEFT_HAS_EMULATOR
using test::Words;

TEST(GemmBeside, EveryMapByEveryKernel) {
    for (const auto& [rows, dtype] :
         test::combined(Words{"[72]", "[1]", "[2,72]", "[2,1,72]", "[2,4,1,72]", "[1,8,72]", "[2,8,72]",
                              "[2,8,1]", "[2,8,72]{600,75,1}", "[2,8,72]{0,72,1}"},
                        Words{"bf16", "fp32"})) {
        const auto line = [](const std::string& a, const std::string& beside) {
            return "gemm a=" + a + "[2,8,32] b=" + a + "[72,32] out=bf16[2,8,72] " + beside;
        };
        const std::string gate = "gate=" + dtype + rows, residual = "residual=" + dtype + rows;
        for (const char* kernel : {"wgmma", "mma_sync", "fma"}) {
            test::expect_right(line("bf16", gate + " residual=fp16[2,8,72]"), kernel, kernel);
            test::expect_right(line("bf16", residual + " gate=fp16[2,8,72]"), kernel, kernel);
        }
        test::expect_right(line("bf16", gate + " " + residual), "skinny", "skinny");
        test::expect_right(line("fp32", gate + " " + residual), "fma", "fma");
    }
    test::expect_right(
        "gemm a=bf16[2,3,4,32] b=bf16[40,32] gate=bf16[2,1,4,40] residual=bf16[1,3,1,40] "
        "out=bf16[2,3,4,40]",
        "wgmma", "wgmma");
    test::expect_right("gemm a=bf16[5,16] b=bf16[1,16] gate=bf16[5,1] residual=bf16[1] out=bf16[5,1]",
                       "mma_sync", "mma_sync");
}

// The box of every tile takes rows of floats in two parts or three, of features by all of a warpgroup.
TEST(GemmBeside, RowsOfEveryTile) {
    const auto expect = [&](int batches, int tokens, int n, const std::string& tile, bool up,
                            const std::string& out) {
        const std::string rows = fmt::format("{},{}", batches, tokens);
        const std::string operands =
            fmt::format("gemm a=bf16[{0},64] b=bf16[{1},64]{2} gate=fp32[{3},1,{1}] out={4}[{0},{1}]", rows,
                        n, up ? fmt::format(" up=bf16[{},64]", n) : "", batches, out);
        // The gate changes within a tile; residuals of the copy engine come after it, others in the same way.
        test::expect_right(operands + fmt::format(" residual=bf16[{},{}]", rows, n), "wgmma", tile);
        test::expect_right(operands + fmt::format(" residual=fp32[1,{},{}]", tokens, n), "wgmma", tile);
    };
    expect(8, 128, 64, "128x256 tiles", true, "bf16");
    expect(8, 124, 64, "128x248 tiles", true, "fp8_e4m3");
    expect(8, 64, 64, "128x128 tiles", true, "fp16");
    expect(8, 32, 64, "128x64 tiles", true, "bf16");
    expect(2, 8, 64, "128x16 tiles", true, "bf16");
    expect(4, 128, 512, "128x256 tiles", false, "fp8_e4m3");
    expect(4, 88, 256, "128x176 tiles", false, "bf16");
    expect(2, 64, 512, "128x128 tiles", false, "bf16");
    expect(2, 32, 512, "128x64 tiles", false, "fp8_e4m3");
    expect(3, 5, 512, "128x16 tiles", false, "bf16");
}

TEST(GemmBeside, RowsWhereBlocksShareATile) {
    const Outcome outcome = test::verify_as(
        "gemm a=bf16[5,10,1032] b=bf16[136,1032] gate=fp32[5,1,136] residual=bf16[1,10,136] "
        "out=bf16[5,10,136]",
        "h200");
    EXPECT_TRUE(outcome.passed) << outcome.why;
    EXPECT_THAT(outcome.implementation, HasSubstr("k in 8 parts"));
}
#endif

}  // namespace
}  // namespace weft
