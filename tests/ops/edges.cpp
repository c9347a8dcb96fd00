// Ends of what the kit's device code takes, through an op each: scales that no drawn case has, numbers that fit no int,
// more pairs than a launch turns, lanes without a row.
#include <gmock/gmock.h>

#include <cmath>

#include "ops/dequantize/dequantize.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/modulate/modulate.h"
#include "ops/quantize/quantize.h"
#include "ops/rope/rope.h"
#include "tests/ops/support.h"
#include "verify/trial.h"
#include "weft/op.h"

namespace weft {
namespace {

using test::HostTensor;

// Powers of two from the smallest, which is subnormal, to the largest; and the code that says NaN.
TEST(Edges, EveryPowerOfTwoIsAScale) {
    HostTensor codes(DType::fp8_e4m3, {4, 32}, std::vector<double>(128, 1.0)), scale(DType::ue8m0, {4, 1});
    constexpr std::uint8_t kCodes[] = {0, 1, 254, 255};
    for (const Device device : test::host_devices()) {
        HostTensor out(DType::fp32, {4, 32});
        Tensor scales = scale.on(device);
        std::copy_n(kCodes, 4, static_cast<std::uint8_t*>(scales.data));
        run(Dequantize{.x = codes.on(device), .out = out.on(device), .group_scale = scales});
        EXPECT_EQ(out[0], 0x1p-127);
        EXPECT_EQ(out[32], 0x1p-126);
        EXPECT_EQ(out[64], 0x1p127);
        EXPECT_TRUE(std::isnan(out[96]));
    }
}

// The scale of a row is never subnormal, so that its inverse is finite.
TEST(Edges, ScalesOfTinyRowsAreNormal) {
    HostTensor x(DType::fp32, {1, 32}, std::vector<double>(32, 0x1p-126));
    for (const Device device : test::host_devices()) {
        for (const DType dtype : {DType::fp8_e4m3, DType::int8}) {
            HostTensor out(dtype, {1, 32}), token(DType::fp32, {1});
            run(Quantize{.x = x.on(device), .out = out.on(device), .token_scale = token.on(device)});
            EXPECT_EQ(token[0], 0x1p-126);
            for (int i = 0; i < 32; ++i) EXPECT_EQ(out[i], 1) << i;
        }
    }
}

// Nor is the inverse infinite where a group's own scale is tiny under a tiny one of the tensor.
TEST(Edges, NothingIsStillNothingUnderTheSmallestScales) {
    std::vector<double> values(16, 0.0);
    values[3] = 0x1p-133;
    HostTensor x(DType::fp32, {1, 16}, values), tensor(DType::fp32, {1}, {0x1p-126});
    for (const Device device : test::host_devices()) {
        HostTensor out(DType::fp4_e2m1, {1, 16}), group(DType::fp8_e4m3, {1, 1});
        run(Quantize{.x = x.on(device),
                     .out = out.on(device),
                     .scale = tensor.on(device),
                     .group_scale = group.on(device)});
        EXPECT_EQ(group[0], 0x1p-9);
        for (const int i : {0, 1, 2, 4, 15}) EXPECT_EQ(out[i], 0) << i;
    }
}

// A sixth of a group's largest element may lie halfway between two codes of its scale: rounded to even, not by the error
// of a product with 1/6.
TEST(Edges, ScalesOfGroupsAreRoundedOnce) {
    for (const Device device : test::host_devices()) {
        for (int m = 8; m < 16; ++m) {
            const double tie = (m + 0.5) / 8, even = (m % 2 == 0 ? m : m + 1) / 8.0;
            HostTensor x(DType::fp32, {1, 16}, std::vector<double>(16, 6 * tie));
            HostTensor out(DType::fp4_e2m1, {1, 16}), group(DType::fp8_e4m3, {1, 1});
            run(Quantize{.x = x.on(device), .out = out.on(device), .group_scale = group.on(device)});
            EXPECT_EQ(group[0], even) << tie;
        }
    }
}

// Rows that a number of 64 bits picks: none of them is that of its lower half. The CPU refuses what lies outside.
TEST(Edges, NumbersThatFitNoIntAreOutside) {
    for (const Device device : test::host_devices()) {
        if (device == kCpu) continue;
        for (const std::int64_t far : {std::int64_t{1} << 32, -(std::int64_t{1} << 32)}) {
            HostTensor x(DType::fp32, {1, 1, 4}, {1, 2, 3, 4}),
                table(DType::fp32, {3, 2}, {1, 1, 1, 1, 1, 1});
            HostTensor positions(DType::int64, {1}), out(DType::fp32, {1, 1, 4});
            const Tensor at = positions.on(device);
            *static_cast<std::int64_t*>(at.data) = far + 1;
            run(Rope{.x = x.on(device),
                     .out = out.on(device),
                     .positions = at,
                     .cos = table.on(device),
                     .sin = table.on(device)});
            for (int i = 0; i < 4; ++i) EXPECT_EQ(out[i], 0) << "a position outside of the table";
            HostTensor rows(DType::fp32, {1, 4}, {1, 1, 1, 1}), added(DType::fp32, {3, 4}),
                sum(DType::fp32, {1, 4});
            for (int i = 0; i < 12; ++i) added.set(i, i / 4);
            run(Modulate{
                .x = rows.on(device), .index = at, .shift = added.on(device), .out = sum.on(device)});
            EXPECT_EQ(sum[0], far > 0 ? 3 : 1) << "the nearest row of the table";
        }
    }
}

// Norms take the nearest row, too, in the kernel for rows that are few.
TEST(Edges, NormsPickTheNearestRowOfATable) {
    for (const Device device : test::host_devices()) {
        if (device == kCpu) continue;
        HostTensor x(DType::bf16, {3, 64}, std::vector<double>(192, 1.0)), zero(DType::bf16, {3, 64}),
            shift(DType::bf16, {3, 64}), index(DType::int32, {3}, {9, -9, 1}), out(DType::bf16, {3, 64});
        for (int i = 0; i < 192; ++i) shift.set(i, 1 + i / 64);
        run(LayerNorm{.x = x.on(device),
                      .mod_index = index.on(device),
                      .mod_scale = zero.on(device),
                      .mod_shift = shift.on(device),
                      .out = out.on(device)});
        EXPECT_EQ(out[0], 3);
        EXPECT_EQ(out[64], 1);
        EXPECT_EQ(out[128], 2);
    }
}

TEST(Edges, EagerChainsTakeWhatTheirOperatorsTake) {
    const std::string call = "rms_norm x=bf16[3,128] weight=fp32[128] rounding=";
    EXPECT_EQ(test::rejection(call + "eager"), "accepted");
    EXPECT_EQ(test::rejection(call + "eager_cast"),
              "rms_norm.weight: expected x's dtype with rounding=eager_cast, got fp32");
}

#if WEFT_HAS_EMULATOR
void expect_right(const char* line, const std::vector<Values>& values) {
    for (const Values drawn : values) {
        for (const std::uint64_t seed : {1, 2, 3, 4}) {
            const Trial trial{Case::parse(line), seed, drawn, 0};
            const Outcome outcome = attempt(trial, kEmulator);
            EXPECT_TRUE(outcome.passed) << command(trial, kEmulator) << "\n" << outcome.why;
        }
    }
}

TEST(Edges, LanesWithoutARowStoreNoScale) {
    for (const char* out : {"int8", "fp8_e4m3"}) {
        const std::string line =
            std::string("rms_norm x=bf16[3,64] out=") + out + "[3,64] token_scale=fp32[3]";
        expect_right(line.c_str(), {Values::usual, Values::special});
    }
}

TEST(Edges, NanOfARowIsInTheScaleOfItsInt8Codes) {
    expect_right("rms_norm x=bf16[9,520] weight=fp32[520] out=int8[9,520] token_scale=fp32[9]",
                 {Values::special});
}

// Into the residual's own memory, which a second pass would find summed already.
TEST(Edges, ARowThatIsReadAgainIsAddedToOnce) {
    expect_right("rms_norm x=bf16[3,128] residual=bf16[3,128] residual_out=@residual rounding=eager",
                 {Values::usual});
    expect_right("rms_norm x=bf16[1,270008] residual=fp32[1,270008] residual_out=@residual", {Values::usual});
}

// The largest element of a row lies beyond what a block's threads keep.
TEST(Edges, RowsOfMoreThanABlockKeepsAreScaledByAllOfThem) {
    expect_right("quantize x=bf16[1,70000] out=int8[1,70000] token_scale=fp32[1]", {Values::rising});
}

TEST(Edges, HeadsOfMorePairsThanALaunchTurns) {
    for (const char* pairs : {"", " pairs=interleaved"}) {
        expect_right((std::string("rope x=bf16[5,2,528]") + pairs).c_str(), {Values::usual});
    }
}
#endif

}  // namespace
}  // namespace weft
