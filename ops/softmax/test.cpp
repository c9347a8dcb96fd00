// softmax: what generated cases don't say.
#include "ops/softmax/softmax.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>

#include "tests/ops/emulated.h"
#include "tests/ops/support.h"
#include "weft/case.h"
#include "weft/op.h"

namespace weft {
namespace {

using test::rejection;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsNan;

std::vector<float> softmax(std::vector<float> x, float scale = 1) {
    const Device device = WEFT_HAS_EMULATOR ? kEmulator : kCpu;
    std::vector<float> out(x.size());
    const auto dim = static_cast<std::int64_t>(x.size());
    run(Softmax{.x = Tensor(x.data(), DType::fp32, {1, dim}, device),
                .out = Tensor(out.data(), DType::fp32, {1, dim}, device),
                .scale = scale});
    return out;
}

TEST(Softmax, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("softmax x=int8[4,8] out=bf16[4,8]"), HasSubstr("softmax.x: expected dtype"));
    EXPECT_THAT(rejection("softmax x=bf16[4,8] out=fp8_e4m3[4,8]"), HasSubstr("softmax.out: expected dtype"));
    EXPECT_THAT(rejection("softmax x=bf16[4,8] out=bf16[4,9]"), HasSubstr("softmax.out: expected"));
    EXPECT_THAT(rejection("softmax x=bf16[4,8]{8,2} out=bf16[4,8]"),
                HasSubstr("softmax.x: the last axis must be contiguous"));
    EXPECT_THAT(rejection("softmax x=bf16[4,8] out=bf16[4,8] scale=1e9"), HasSubstr("expected a value in"));
    EXPECT_THAT(rejection("softmax out=bf16[4,8]"), HasSubstr("softmax.x: is required"));
}

TEST(Softmax, SumsToOneAndIgnoresAShift) {
    std::vector<float> x(3000), shifted(3000);
    for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<float>(i * 7 % 64) / 8;
        shifted[i] = x[i] + 1024;
    }
    const std::vector<float> y = softmax(x);
    double sum = 0;
    for (const float v : y) sum += static_cast<double>(v);
    EXPECT_NEAR(sum, 1, 1e-5);
    const std::vector<float> z = softmax(shifted);
    for (std::size_t i = 0; i < y.size(); ++i)
        EXPECT_NEAR(z[i], y[i], 1e-4f * y[i]) << i;  // 1024·log2(e) in fp32
}

TEST(Softmax, ARowWithoutAKeyGivesZerosAndNanReachesTheWholeRow) {
    EXPECT_THAT(softmax(std::vector<float>(40, -INFINITY)), Each(0.0f));
    std::vector<float> x(40, 1.0f);
    x[7] = NAN;
    EXPECT_THAT(softmax(x), Each(IsNan()));
    std::vector<float> masked(40, -INFINITY);
    masked[39] = NAN;
    EXPECT_THAT(softmax(masked), Each(IsNan()));
    masked[39] = -3.0f;
    const std::vector<float> y = softmax(masked);
    EXPECT_EQ(y[39], 1.0f);
    EXPECT_EQ(y[0], 0.0f);
}

#if WEFT_HAS_EMULATOR
// Rows that no three strides lead to are read in octets, the last of which is cut: what lies behind it is no maximum, and
// what lies in it may be one. 8·x is so far from the other elements' that either mistake leaves no finite weight.
TEST(Softmax, TakesTheMaximumOfCutOctets) {
    constexpr std::array<std::int64_t, 4> kShape = {2, 3, 2, 9}, kStride = {200, 61, 20, 1};
    for (std::int64_t top = 0; top < 9; ++top) {
        std::vector<float> x(400, -60.0f), out(108);
        Softmax op{.x = Tensor(x.data(), DType::fp32, kShape, kStride, kEmulator),
                   .out = Tensor(out.data(), DType::fp32, kShape, kEmulator),
                   .scale = 8};
        for (std::size_t row = 0; row < 12; ++row) {
            const auto at = static_cast<std::int64_t>(row);
            x[static_cast<std::size_t>(at / 6 * 200 + at / 2 % 3 * 61 + at % 2 * 20 + top)] = -30.0f;
        }
        run(op);
        for (std::int64_t i = 0; i < 108; ++i)
            EXPECT_EQ(out[static_cast<std::size_t>(i)], i % 9 == top ? 1.0f : 0.0f) << i << " of " << top;
    }
}

TEST(Softmax, RowsOfACluster) {
    test::expect_right("softmax x=bf16[2,65536] out=bf16[2,65536]", "rows", "vectors=4x8 rows=1 cluster=8");
    test::expect_right("softmax x=bf16[3,65528] out=bf16[3,65528]", "rows", "vectors=8x8 rows=1 cluster=8");
}
#endif

}  // namespace
}  // namespace weft
