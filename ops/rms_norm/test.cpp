// rms_norm: what generated cases don't say.
#include "ops/rms_norm/rms_norm.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/ops/emulated.h"
#include "weft/case.h"
#include "weft/op.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

std::string rejection(const char* line) {
    try {
        Case::parse(line).check();
    } catch (const Error& e) {
        return e.what();
    }
    return "accepted";
}

TEST(RmsNorm, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("rms_norm x=int8[4,8] out=bf16[4,8]"), HasSubstr("rms_norm.x: expected dtype"));
    EXPECT_THAT(rejection("rms_norm x=bf16[4,8] weight=bf16[7] out=bf16[4,8]"),
                HasSubstr("rms_norm.weight: expected [dim=8], got [7]"));
    EXPECT_THAT(rejection("rms_norm x=bf16[4,8] weight=bf16[1,8] out=bf16[4,8]"),
                HasSubstr("rms_norm.weight: expected"));
    EXPECT_THAT(rejection("rms_norm x=bf16[4,8]{8,2} out=bf16[4,8]"),
                HasSubstr("rms_norm.x: the last axis must be contiguous"));
    EXPECT_THAT(rejection("rms_norm x=bf16[4,8] out=int32[4,8]"), HasSubstr("rms_norm.out: expected dtype"));
    EXPECT_THAT(rejection("rms_norm x=bf16[4,8] out=bf16[4,9]"), HasSubstr("rms_norm.out: expected"));
    EXPECT_THAT(rejection("rms_norm x=bf16[4,8] residual=bf16[4,8] residual_out=fp32[4,8] out=bf16[4,8]"),
                HasSubstr("rms_norm.residual_out: expected residual's dtype bf16, got fp32"));
    EXPECT_THAT(rejection("rms_norm x=bf16[4,8] residual_out=bf16[4,8] out=bf16[4,8]"),
                HasSubstr("rms_norm.residual_out: expected residual beside it, got none"));
    EXPECT_THAT(rejection("rms_norm x=bf16[4,8] out=bf16[4,8] weight_offset=1"),
                HasSubstr("rms_norm.weight_offset: expected 0 where there is no weight"));
    EXPECT_THAT(rejection("rms_norm x=bf16[4,8] out=bf16[4,8] eps=-1"),
                HasSubstr("expected a value in [0, 1]"));
    EXPECT_THAT(rejection("rms_norm x=bf16[4,8] out=bf16[4,8] scale=fp32[1]"),
                HasSubstr("rms_norm.scale: expected none, because out is bf16, which has no scale"));
    EXPECT_THAT(rejection("rms_norm x=bf16[4,8] out=fp8_e4m3[4,8] scale=fp32[1] token_scale=fp32[4]"),
                HasSubstr("rms_norm.token_scale: expected scale or token_scale, got both"));
    EXPECT_THAT(rejection("rms_norm x=bf16[4,8] out=fp8_e4m3[4,8] token_scale=fp32[5]"),
                HasSubstr("rms_norm.token_scale: expected"));
    EXPECT_THAT(rejection("rms_norm out=bf16[4,8]"), HasSubstr("rms_norm.x: is required"));
}

TEST(RmsNorm, RejectsNullOverlapAndMixedDevices) {
    std::vector<std::uint16_t> memory(64);
    RmsNorm op{.x = Tensor(memory.data(), DType::bf16, {2, 8}),
               .out = Tensor(memory.data() + 32, DType::bf16, {2, 8})};
    EXPECT_NO_THROW(run(op));
    op.out = op.x;  // in place
    EXPECT_NO_THROW(run(op));
    op.out.data = memory.data() + 4;  // over a part of it
    EXPECT_THROW(run(op), Error);
    op.out.data = nullptr;
    EXPECT_THROW(run(op), Error);
    op.out = Tensor(memory.data() + 32, DType::bf16, {2, 8}, kEmulator);
    EXPECT_THROW(run(op), Error);
}

// Runs in the emulator where there is one, else on the CPU.
Device here() { return WEFT_HAS_EMULATOR ? kEmulator : kCpu; }

TEST(RmsNorm, ReadsTheRoundedResidual) {
    // 1 + 2^-9 rounds to 1 in bf16: a norm of the unrounded sum would not see equal elements.
    std::vector<float> x(16, 1.0f), residual(16, 0.0f);
    for (std::size_t i = 0; i < 8; ++i) residual[i] = 0x1p-9f;
    std::vector<std::uint16_t> x16(16), residual16(16), sum(16);
    std::vector<float> out(16);
    for (int i = 0; i < 16; ++i) {
        store_element(DType::bf16, x16.data(), i, static_cast<double>(x[static_cast<std::size_t>(i)]));
        store_element(DType::bf16, residual16.data(), i,
                      static_cast<double>(residual[static_cast<std::size_t>(i)]));
    }
    run(RmsNorm{.x = Tensor(x16.data(), DType::bf16, {1, 16}, here()),
                .residual = Tensor(residual16.data(), DType::bf16, {1, 16}, here()),
                .residual_out = Tensor(sum.data(), DType::bf16, {1, 16}, here()),
                .out = Tensor(out.data(), DType::fp32, {1, 16}, here()),
                .eps = 0});
    for (int i = 0; i < 16; ++i) {
        EXPECT_EQ(load_element(DType::bf16, sum.data(), i), 1.0);
        EXPECT_EQ(out[static_cast<std::size_t>(i)], 1.0f);
    }
}

TEST(RmsNorm, GivesRowsOfUnitMeanSquareAndFullScaleCodes) {
    constexpr int kRows = 3, kDim = 1000;
    std::vector<float> x(kRows * kDim), out(x.size()), scale(kRows);
    std::vector<std::uint8_t> codes(x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = std::sin(static_cast<float>(i)) * static_cast<float>(i / kDim + 1);
    RmsNorm op{.x = Tensor(x.data(), DType::fp32, {kRows, kDim}, here()),
               .out = Tensor(out.data(), DType::fp32, {kRows, kDim}, here()),
               .eps = 0};
    run(op);
    op.out = Tensor(codes.data(), DType::fp8_e4m3, {kRows, kDim}, here());
    op.token_scale = Tensor(scale.data(), DType::fp32, {kRows}, here());
    run(op);
    for (int row = 0; row < kRows; ++row) {
        double squares = 0, largest = 0;
        for (int i = 0; i < kDim; ++i) {
            const auto at = static_cast<std::size_t>(row * kDim + i);
            squares += static_cast<double>(out[at]) * static_cast<double>(out[at]);
            largest = std::max(largest, std::fabs(decode(DType::fp8_e4m3, codes[at])));
        }
        EXPECT_NEAR(squares / kDim, 1, 1e-6);
        EXPECT_EQ(largest, 448);
    }
}

TEST(RmsNorm, NothingToDoIsFine) {
    RmsNorm op{.x = Tensor(nullptr, DType::bf16, {0, 8}), .out = Tensor(nullptr, DType::bf16, {0, 8})};
    EXPECT_NO_THROW(run(op));
}

#if WEFT_HAS_EMULATOR
// Longer than the registers of a block: its blocks exchange sums once, or with a scale a row twice.
TEST(RmsNorm, RowsOfACluster) {
    test::expect_right("rms_norm x=fp32[1,65536] weight=fp32[65536] out=fp32[1,65536]", "rows",
                       "vectors=4x4 rows=1 cluster=8");
    test::expect_right(
        "rms_norm x=bf16[2,65536] weight=bf16[65536] residual=bf16[2,65536] residual_out=bf16[2,65536] "
        "out=fp8_e4m3[2,65536] token_scale=fp32[2]",
        "rows", "vectors=4x8 rows=1 cluster=4");
    test::expect_right("rms_norm x=bf16[2,65536] weight=fp32[65536] out=bf16[2,65536]", "rows",
                       "cluster=4 mixed");
}
// Many long rows fill a thread's registers, so that it asks for the weight late; the last threads have fewer vectors.
TEST(RmsNorm, RowsOfAClusterWhoseThreadsAreFull) {
    test::expect_right("rms_norm x=fp32[2,65532] out=fp32[2,65532]", "rows", "vectors=8x4 rows=1 cluster=8");
    test::expect_right("rms_norm x=bf16[3,65528] weight=bf16[65528] out=bf16[3,65528]", "rows",
                       "vectors=8x8 rows=1 cluster=8");
    test::expect_right(
        "rms_norm x=bf16[3,65528] weight=bf16[65528] residual=bf16[3,65528] residual_out=bf16[3,65528] "
        "out=fp8_e4m3[3,65528] token_scale=fp32[3]",
        "rows", "vectors=8x8 rows=1 cluster=8");
}
// Groups of columns in every kind of row: several of a warp, of blocks, of clusters, read again; whole vectors of 4 and
// 8 elements; and rows that are none, whose groups are found in a pass of their own.
TEST(RmsNorm, WritesScalesOfGroupsInEveryKindOfRow) {
    for (const char* line : {
             "rms_norm x=bf16[5,64] weight=bf16[64] out=fp8_e4m3[5,64] group_scale=fp32[5,1]",
             "rms_norm x=bf16[130,72] out=fp4_e2m1[130,72] swizzled_scale=fp8_e4m3[256,8] scale=fp32[1]",
             "rms_norm x=fp32[3,520] weight=bf16[520] out=fp8_e5m2[3,520] group_scale=fp32[3,5]{1,4}",
             "rms_norm x=fp16[3,4104] residual=fp16[3,4104] residual_out=@residual out=fp8_e4m3[3,4104] "
             "swizzled_scale=ue8m0[128,132]",
             "rms_norm x=bf16[1,40000] weight=fp32[40000] out=fp4_e2m1[1,40000] group_scale=ue8m0[1,1250]",
             "rms_norm x=bf16[1,262160] out=fp4_e2m1[1,262160] group_scale=fp8_e4m3[1,16385]",
             "rms_norm x=bf16[3,74] out=fp4_e2m1[3,74] group_scale=fp8_e4m3[3,5]",
             "rms_norm x=bf16[3,200]+1 out=fp8_e4m3[3,200] group_scale=fp32[3,2]",
         }) {
        EXPECT_EQ(verify(Case::parse(line), kEmulator).why, "") << line;
    }
}
#endif

}  // namespace
}  // namespace weft
