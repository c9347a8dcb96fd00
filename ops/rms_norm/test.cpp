// rms_norm: what generated cases don't say.
#include "ops/rms_norm/rms_norm.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/ops/emulated.h"
#include "tests/ops/support.h"
#include "verify/random.h"
#include "weft/case.h"
#include "weft/op.h"

namespace weft {
namespace {

using test::rejection;
using ::testing::HasSubstr;

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

// PyTorch's chains have one dtype (but for the weight that is widened), and nothing that they do not know.
TEST(RmsNorm, EagerTakesWhatItsChainHas) {
    const std::string x = "rms_norm x=bf16[4,8] ";
    for (const char* others : {"residual=fp32[4,8] residual_out=fp32[4,8] out=bf16[4,8]", "out=fp32[4,8]"}) {
        EXPECT_EQ(rejection((x + others).c_str()), "accepted") << others;
        const std::string field = std::string(others).substr(0, std::string(others).find('='));
        for (const char* rounding : {" rounding=eager", " rounding=eager_cast"})
            EXPECT_THAT(
                rejection((x + others + rounding).c_str()),
                HasSubstr("rms_norm." + field + ": expected x's dtype with rounding=eager, got fp32"));
    }
    const std::string bias = x + "weight=bf16[8] bias=bf16[8] out=bf16[4,8]";
    EXPECT_EQ(rejection(bias.c_str()), "accepted");
    EXPECT_THAT(rejection((bias + " rounding=eager").c_str()), HasSubstr("rms_norm.bias: expected none"));
    EXPECT_EQ(rejection((bias + " rounding=eager_cast").c_str()), "accepted");
    EXPECT_THAT(rejection((x + "weight=bf16[8] bias=fp32[8] out=bf16[4,8] rounding=eager_cast").c_str()),
                HasSubstr("rms_norm.bias: expected x's dtype with rounding=eager_cast, got fp32"));
    const std::string offset = x + "weight=bf16[8] out=bf16[4,8] weight_offset=1 rounding=eager";
    EXPECT_EQ(rejection(offset.c_str()), "accepted");
    EXPECT_THAT(rejection((offset + "_cast").c_str()),
                HasSubstr("rms_norm.weight_offset: expected 0 with rounding=eager_cast"));
    const std::string weight = x + "weight=fp32[8] out=bf16[4,8] rounding=eager";
    EXPECT_EQ(rejection(weight.c_str()), "accepted");
    EXPECT_THAT(rejection((weight + "_cast").c_str()),
                HasSubstr("rms_norm.weight: expected x's dtype with rounding=eager_cast, got fp32"));
    EXPECT_EQ(rejection((x + "out=bf16[4,8] rounding=eager_cast").c_str()), "accepted");
    EXPECT_EQ(rejection((x + "weight=bf16[8] out=bf16[4,8] rounding=eager_cast").c_str()), "accepted");
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
// Sums and products that round for themselves, whatever the compiler of this file would contract.
float plus(float a, float b) {
    const volatile float sum = a + b;
    return sum;
}
float times(float a, float b) {
    const volatile float product = a * b;
    return product;
}

// The sum of squares of a row in the order of PyTorch's reduction: `threads` threads take four neighbours in turn, then
// rows of `width` threads are folded in halves, and then the rows.
float sum_in_order(const float* x, std::size_t dim, std::size_t width, std::size_t threads) {
    std::vector<float> part(threads);
    for (std::size_t t = 0; t < threads; ++t) {
        float own[4] = {};
        for (std::size_t first = 4 * t; first < dim; first += 4 * threads) {
            for (std::size_t j = 0; j < 4; ++j) own[j] = plus(own[j], times(x[first + j], x[first + j]));
        }
        part[t] = plus(plus(plus(own[0], own[1]), own[2]), own[3]);
    }
    for (std::size_t row = 0; row < threads; row += width) {
        for (std::size_t apart = width / 2; apart > 0; apart /= 2) {
            for (std::size_t c = row; c < row + apart; ++c) part[c] = plus(part[c], part[c + apart]);
        }
    }
    for (std::size_t apart = threads / 2; apart >= width; apart /= 2) {
        for (std::size_t t = 0; t < apart; t += width) part[t] = plus(part[t], part[t + apart]);
    }
    return part[0];
}

// rounding=eager is PyTorch's to the bit, which an interval cannot tell. The threads of each shape are those that PyTorch
// takes for a reduction of a contiguous fp32 tensor of it.
TEST(RmsNorm, EagerRoundsAndSumsInPyTorchsOrder) {
    struct {
        std::size_t rows, dim, width, threads;
    } const shapes[] = {{1, 128, 32, 32},    {6, 516, 128, 128}, {5, 1000, 128, 128},  {2, 2052, 256, 256},
                        {3, 4096, 256, 512}, {17, 1024, 32, 32}, {1, 16384, 512, 512}, {9, 8192, 64, 512}};
    constexpr float kEps = 0.25f, kOffset = 1.0f;
    for (const auto& [rows, dim, width, threads] : shapes) {
        test::HostTensor x(DType::fp32, {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(dim)}),
            weight(DType::fp32, {static_cast<std::int64_t>(dim)}), out = x;
        std::vector<float> values(rows * dim), factors(dim);
        Random random(dim);
        for (std::size_t i = 0; i < values.size(); ++i) {
            values[i] = static_cast<float>(random.normal());
            x.set(static_cast<std::int64_t>(i), values[i]);
        }
        for (std::size_t i = 0; i < dim; ++i) {
            factors[i] = static_cast<float>(random.normal());
            weight.set(static_cast<std::int64_t>(i), factors[i]);
        }
        run(RmsNorm{.x = x.on(kEmulator),
                    .weight = weight.on(kEmulator),
                    .out = out.on(kEmulator),
                    .eps = kEps,
                    .weight_offset = kOffset,
                    .rounding = Rounding::eager});
        const float share = static_cast<float>(rows) / static_cast<float>(rows * dim);
        int others = 0;
        for (std::size_t row = 0; row < rows; ++row) {
            const float mean = times(sum_in_order(&values[row * dim], dim, width, threads), share);
            const auto scale = static_cast<float>(
                1 / std::sqrt(static_cast<double>(plus(mean, kEps))));  // the emulator's rsqrtf
            for (std::size_t i = 0; i < dim; ++i) {
                const float expected = times(times(values[row * dim + i], scale), plus(factors[i], kOffset));
                others += static_cast<float>(out[static_cast<std::int64_t>(row * dim + i)]) != expected;
            }
        }
        EXPECT_EQ(others, 0) << rows << "x" << dim;
    }
}
#endif

}  // namespace
}  // namespace weft
