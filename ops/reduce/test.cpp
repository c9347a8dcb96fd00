// reduce: what generated cases don't say.
#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "ops/reduce/reduce.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

TEST(Reduce, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("reduce x=bf16[4,8] out=int32[4]"),
                HasSubstr("reduce.out: expected a floating dtype"));
    EXPECT_THAT(rejection("reduce x=int8[4,8] out=int64[4] kind=mean"),
                HasSubstr("reduce.out: expected a floating dtype"));
    EXPECT_THAT(rejection("reduce x=bf16[4,0] out=fp32[4] kind=max"),
                HasSubstr("expected at least one element"));
    EXPECT_THAT(rejection("reduce x=bf16[1,0] out=fp32[1] kind=max"),
                HasSubstr("expected at least one element"));
    EXPECT_EQ(rejection("reduce x=bf16[0,0] out=fp32[0] kind=max"), "accepted");  // nothing to find
    EXPECT_THAT(rejection("reduce x=bf16[4,8] factor=fp16[4,8] out=fp32[4]"),
                HasSubstr("reduce.factor: expected x's dtype"));
}

// Sums kept in half precision stop growing at 2048 ones; sums of int8 in int8 wrap around.
TEST(Reduce, SumsAreWiderThanTheirTerms) {
    for (const Device device : test::host_devices()) {
        HostTensor ones(DType::fp16, {5000}), total(DType::fp32, {1}), bytes(DType::int8, {3, 300}),
            flat(DType::int8, {900}), sums(DType::int32, {3}), exact(DType::int64, {1});
        for (int i = 0; i < 5000; ++i) ones.set(i, 1);
        for (int i = 0; i < 900; ++i) bytes.set(i, i < 300 ? -128 : 127), flat.set(i, i < 300 ? -128 : 127);
        run(Reduce{.x = ones.on(device), .out = total.on(device)});
        EXPECT_EQ(total[0], 5000);
        run(Reduce{.x = bytes.on(device), .out = sums.on(device)});
        EXPECT_EQ(sums[0], -128 * 300);
        EXPECT_EQ(sums[2], 127 * 300);
        run(Reduce{.x = flat.on(device), .factor = flat.on(device), .out = exact.on(device)});
        EXPECT_EQ(exact[0], 300 * (128 * 128 + 2 * 127 * 127));
    }
}

// A dot product of int8 is exact up to the limits of int32, and stays there.
TEST(Reduce, SumsOfIntegersSaturate) {
    constexpr std::int64_t kN = 140'000;
    for (const Device device : test::host_devices()) {
        HostTensor x(DType::int8, {kN}), factor(DType::int8, {kN}), sum(DType::int32, {1});
        for (std::int64_t i = 0; i < kN; ++i) x.set(i, 127), factor.set(i, 127);
        const Reduce op{.x = x.on(device), .factor = factor.on(device), .out = sum.on(device)};
        run(op);
        EXPECT_EQ(sum[0], 2147483647.0);
        for (std::int64_t i = 0; i < kN; ++i) factor.set(i, -127);
        run(op);
        EXPECT_EQ(sum[0], -2147483648.0);
    }
}

// Kernels that guard the first element of a vector alone lose an odd tail, or read beyond it.
TEST(Reduce, OddTailsAndUnalignedRowsCount) {
    for (const Device device : test::host_devices()) {
        for (const std::int64_t n : {1, 3, 7, 9, 15, 17, 63, 65, 4097}) {
            HostTensor x(DType::bf16, {n + 3}), total(DType::fp32, {1});
            for (std::int64_t i = 0; i < n + 3; ++i) x.set(i, i < 3 ? 1000 : 1);
            for (const std::int64_t skip : {0, 1, 3}) {
                run(Reduce{.x = x.on(device).slice(0, skip, n + 3), .out = total.on(device)});
                EXPECT_EQ(total[0], 1000.0 * static_cast<double>(3 - skip) + static_cast<double>(n));
            }
        }
    }
}

TEST(Reduce, MaximaKeepNanAndEmptySumsAreZero) {
    for (const Device device : test::host_devices()) {
        HostTensor x(DType::fp32, {2, 3}, {-5, -2, -9, 1, std::nan(""), 3}), out(DType::fp32, {2}),
            empty(DType::bf16, {0}), total(DType::fp32, {1}, {5});
        run(Reduce{.x = x.on(device), .out = out.on(device), .kind = Reduce::Kind::max});
        EXPECT_EQ(out[0], -2);
        EXPECT_TRUE(std::isnan(out[1]));
        run(Reduce{.x = x.on(device), .out = out.on(device), .kind = Reduce::Kind::amax});
        EXPECT_EQ(out[0], 9);
        HostTensor zeros(DType::fp32, {1, 5}), zero(DType::fp32, {1});
        run(Reduce{.x = zeros.on(device), .out = zero.on(device), .kind = Reduce::Kind::amax});
        EXPECT_FALSE(std::signbit(zero[0]));
        run(Reduce{.x = empty.on(device), .out = total.on(device)});
        EXPECT_EQ(total[0], 0);
        run(Reduce{.x = empty.on(device), .out = total.on(device), .kind = Reduce::Kind::mean});
        EXPECT_TRUE(std::isnan(total[0]));
    }
}

TEST(Reduce, PolicyCutsFewLongRowsAndPacksShortOnes) {
    if (test::configuration("reduce x=bf16[4,8] out=fp32[4]").empty()) GTEST_SKIP() << "no kernels";
    EXPECT_EQ(test::configuration("reduce x=bf16[4096,64] out=fp32[4096]"),
              "chunks: lanes=8 chunks=1 blocks=128 vectors");
    EXPECT_EQ(test::configuration("reduce x=bf16[4096,8192] out=fp32[4096]"),
              "chunks: lanes=32 chunks=1 blocks=512 vectors");
    EXPECT_EQ(test::configuration("reduce x=bf16[1024,8192] out=fp32[1024]"),
              "chunks: lanes=256 chunks=1 blocks=1024 vectors");
    EXPECT_EQ(test::configuration("reduce x=bf16[16777216] out=fp32[1]"),
              "chunks: lanes=256 chunks=1024 blocks=1024 vectors, then their sums");
    EXPECT_THAT(test::configuration("reduce x=bf16[4,999]{1001,1} factor=bf16[4,999] out=fp32[4]"),
                HasSubstr("elements"));
}

}  // namespace
}  // namespace weft
