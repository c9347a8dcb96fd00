// gemm on wgmma where a product has a gate: what the map of both weights says, in the emulator.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "ops/gemm/gemm.h"
#include "tests/ops/emulated.h"
#include "weft/op.h"

namespace weft {
namespace {

#if WEFT_HAS_EMULATOR
void expect(const std::string& operands, const std::string& config) {
    test::expect_right("gemm " + operands, "wgmma", config);
}

// A map of groups of eight rows does not have the last of these: alone, in a tile behind others, of a pair of which one block's
// tile is whole and the other's is not, of scaled groups whose weights are columns, and of parts of a sum.
TEST(GemmWgmmaGated, GatedMatricesThatEndWithinEightRows) {
    expect("a=bf16[40,64] b=bf16[1,64] up=bf16[1,64] out=bf16[40,1]", "single");
    expect("a=bf16[40,200] b=bf16[7,200] up=bf16[7,200] out=fp8_e4m3[40,7] activation=silu", "single");
    expect(
        "a=bf16[300,192] b=bf16[131,192] bias=bf16[131] up=bf16[131,192] up_bias=bf16[131] "
        "gate=bf16[300,131] residual=bf16[300,131] out=bf16[300,131] activation=silu",
        "");
    for (const char* n : {"66", "100", "127", "129", "253"})
        expect(fmt::format("a=bf16[500,130]{{136,1}} b=bf16[{0},130]{{136,1}} up=bf16[{0},130]{{136,1}} "
                           "out=bf16[500,{0}]",
                           n),
               "");
    for (const char* m : {"9", "60", "300"})
        expect(fmt::format("a=fp8_e4m3[{0},256] b=fp8_e4m3[201,256] up=fp8_e4m3[201,256] "
                           "a_group_scale=fp32[{0},2] b_block_scale=fp32[2,2] "
                           "up_block_scale=fp32[2,2] out=bf16[{0},201]",
                           m),
               "groups scaled");
    expect("a=bf16[12,2048] b=bf16[77,2048] up=bf16[77,2048] out=bf16[12,77]", "parts");
}

// Rows of one tensor, as merged weights are passed, or every other one; up after the gate and before it. NaN where k ends
// and the row goes on.
TEST(GemmWgmmaGated, MergedWeightsWithGapsBetweenRows) {
    constexpr std::int64_t kRows = 140, kHidden = 72, kDepth = 70, kStride = 80;
    constexpr std::uint16_t kNan = 0x7fc0, kHalf = 0x3f00, kMinusHalf = 0xbf00, kOne = 0x3f80;
    std::vector<std::uint16_t> a(kRows * kStride, kNan), out(kRows * kHidden);
    for (std::size_t row = 0; row < kRows; ++row)
        std::fill_n(a.begin() + static_cast<std::ptrdiff_t>(row * kStride), kDepth, kHalf);
    const Tensor tokens = Tensor(a.data(), DType::bf16, {kRows, kStride}, kEmulator).slice(1, 0, kDepth);
    for (const bool interleaved : {false, true}) {
        for (const int gate : {0, 1}) {
            std::vector<std::uint16_t> merged(2 * kHidden * kStride, kNan);
            Tensor weights(merged.data(), DType::bf16, {2, kHidden, kStride}, kEmulator);
            if (interleaved) {
                weights.stride[0] = kStride;
                weights.stride[1] = 2 * kStride;
            }
            const auto matrix = [&](int which) {
                return Tensor(merged.data() + which * weights.stride[0], DType::bf16,
                              std::array{kHidden, kDepth}, std::array{weights.stride[1], std::int64_t{1}},
                              kEmulator);
            };
            // 70 halves are 35 of ones and -17.5 of up's minus halves; silu(35) is 35, and silu(-17.5) almost nothing.
            for (const int which : {0, 1}) {
                for (std::int64_t row = 0; row < kHidden; ++row) {
                    auto* first = static_cast<std::uint16_t*>(matrix(which).data) + row * weights.stride[1];
                    std::fill_n(first, kDepth, which == gate ? kOne : kMinusHalf);
                }
            }
            Gemm op{};
            op.a = tokens;
            op.b = matrix(gate);
            op.up = matrix(1 - gate);
            op.activation = Gemm::Activation::silu;
            op.out = Tensor(out.data(), DType::bf16, {kRows, kHidden}, kEmulator);
            Context context(kEmulator);
            context.avoid("mma_sync");
            context.avoid("fma");
            run(op, context);
            for (const std::uint16_t value : out) ASSERT_EQ(decode(DType::bf16, value), -612);  // rounded
            std::fill(out.begin(), out.end(), kNan);
        }
    }
}
#endif

}  // namespace
}  // namespace weft
