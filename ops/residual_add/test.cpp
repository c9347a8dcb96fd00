// residual_add: what generated cases don't say.
#include <gmock/gmock.h>

#include "ops/residual_add/residual_add.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::rejection;
using ::testing::HasSubstr;

TEST(ResidualAdd, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("residual_add x=bf16[4,8] residual=bf16[5,8]"),
                HasSubstr("residual_add.residual: expected [...=(4), dim=8], got [5, 8]"));
    EXPECT_THAT(rejection("residual_add x=bf16[4,8] residual=bf16[4,8] bias=bf16[7]"),
                HasSubstr("residual_add.bias: expected [dim=8], got [7]"));
    EXPECT_THAT(rejection("residual_add x=int8[4,8] residual=bf16[4,8]"),
                HasSubstr("residual_add.x: expected dtype fp32, bf16, fp16, got int8"));
    EXPECT_THAT(rejection("residual_add x=bf16[4,8]{8,2} residual=bf16[4,8]"),
                HasSubstr("residual_add.x: the last axis must be contiguous"));
    EXPECT_THAT(rejection("residual_add residual=bf16[4,8]"), HasSubstr("residual_add.x: is required"));
}

TEST(ResidualAdd, MayOverwriteEitherInputButNoPartOfOne) {
    std::vector<std::uint16_t> memory(64);
    ResidualAdd op{.x = Tensor(memory.data(), DType::bf16, {2, 8}),
                   .residual = Tensor(memory.data() + 32, DType::bf16, {2, 8}),
                   .bias = {},
                   .gate = {},
                   .out = {}};
    op.out = op.residual;
    EXPECT_NO_THROW(run(op));
    op.out.data = memory.data() + 36;
    EXPECT_THROW(run(op), Error);
}

TEST(ResidualAdd, RoundsOnce) {
    // 1 + 2^-8 + 2^-8 is 1 + 2^-7 in bf16; rounding after each addition would give 1.
    std::uint16_t x = 0x3f80, bias = 0x3b80, residual = 0x3b80, out = 0;
    run(ResidualAdd{.x = Tensor(&x, DType::bf16, {1}),
                    .residual = Tensor(&residual, DType::bf16, {1}),
                    .bias = Tensor(&bias, DType::bf16, {1}),
                    .gate = {},
                    .out = Tensor(&out, DType::bf16, {1})});
    EXPECT_EQ(decode(DType::bf16, out), 1.0078125);
}

// The same numbers under rounding=eager, which rounds after each addition: neither mode passes for the other.
TEST(ResidualAdd, RoundsAfterEachStepWhereAsked) {
    for (const Device device : test::host_devices()) {
        std::uint16_t x = 0x3f80, bias = 0x3b80, residual = 0x3b80, out = 0;
        run(ResidualAdd{.x = Tensor(&x, DType::bf16, {1}, device),
                        .residual = Tensor(&residual, DType::bf16, {1}, device),
                        .bias = Tensor(&bias, DType::bf16, {1}, device),
                        .gate = {},
                        .out = Tensor(&out, DType::bf16, {1}, device),
                        .rounding = Rounding::eager});
        EXPECT_EQ(decode(DType::bf16, out), 1.0);
    }
    EXPECT_THAT(rejection("residual_add x=bf16[4,8] residual=fp32[4,8] out=bf16 rounding=eager"),
                HasSubstr("residual_add.residual: expected x's dtype with rounding=eager, got fp32"));
}

TEST(ResidualAdd, AnIndexPicksTheGatesOfRows) {
    for (const Device device : test::host_devices()) {
        test::HostTensor x(DType::fp32, {3, 2}, {1, 2, 3, 4, 5, 6}), residual(DType::fp32, {3, 2}),
            gate(DType::fp32, {2, 2}, {10, 100, -1, -2}), index(DType::int64, {3}, {1, 0, 1}),
            out(DType::fp32, {3, 2});
        run(ResidualAdd{.x = x.on(device),
                        .residual = residual.on(device),
                        .index = index.on(device),
                        .gate = gate.on(device),
                        .out = out.on(device)});
        const double expected[] = {-1, -4, 30, 400, -5, -12};
        for (int i = 0; i < 6; ++i) EXPECT_EQ(out[i], expected[i]) << i;
    }
    EXPECT_THAT(rejection("residual_add x=bf16[4,8] residual=bf16[4,8] out=bf16 index=int32[4]"),
                HasSubstr("residual_add.index: expected gate beside it"));
    EXPECT_THAT(
        rejection("residual_add x=bf16[4,8] residual=bf16[4,8] out=bf16 index=int32[4] gate=bf16[0,8]"),
        HasSubstr("residual_add.gate: expected at least one row"));
    EXPECT_THAT(
        rejection("residual_add x=bf16[1,8] residual=bf16[1,8] out=bf16 index=int32[1] gate=bf16[0,8]"),
        HasSubstr("residual_add.gate: expected at least one row"));
    EXPECT_EQ(rejection("residual_add x=bf16[0,8] residual=bf16[0,8] out=bf16 index=int32[0] gate=bf16[0,8]"),
              "accepted");
    EXPECT_EQ(rejection("residual_add x=bf16[4,8] residual=bf16[4,8] out=bf16 index=int32[4] gate=bf16[1,8]"),
              "accepted");
}

// What the kernels of whole vectors know, and what they do not: a configuration names the size of pieces there.
TEST(ResidualAdd, KnowsTheDtypesOfMostCalls) {
    const std::string call = "residual_add x=bf16[100,72] residual=bf16[100,72] ";
    if (test::configuration(call + "out=bf16[100,72]").empty()) GTEST_SKIP() << "no kernels";
    for (const char* known : {"bias=bf16[72] out=bf16[100,72]", "bias=fp32[72] out=bf16[100,72]",
                              "bias=bf16[72] out=fp32[100,72]", "bias=fp32[72] out=fp16[100,72]"}) {
        EXPECT_EQ(test::configuration(call + known), "vectors: threads=64 lanes=16 grid=1x25") << known;
    }
    for (const char* other : {"bias=fp16[72] out=bf16[100,72]", "gate=fp32[72] out=bf16[100,72]"})
        EXPECT_THAT(test::configuration(call + other), HasSubstr("pieces=8")) << other;
}

TEST(ResidualAdd, TakesAGateOfAnyRows) {
    for (const char* gate :
         {"bf16[8]", "bf16[2,8]", "bf16[2,1,8]", "bf16[2,6,1]", "fp32[2,3,1,8]", "bf16[1]"}) {
        EXPECT_EQ(
            rejection(std::string("residual_add x=bf16[2,6,8] residual=bf16[2,6,8] out=bf16 gate=") + gate),
            "accepted")
            << gate;
    }
    EXPECT_THAT(rejection("residual_add x=bf16[2,6,8] residual=bf16[2,6,8] gate=bf16[6,8] out=bf16"),
                HasSubstr("residual_add.gate: expected"));
}

}  // namespace
}  // namespace weft
