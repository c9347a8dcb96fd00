// copy: what generated cases don't say.
#include <gmock/gmock.h>

#include <cmath>

#include "ops/copy/plan.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::configuration;
using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

TEST(Copy, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("copy x=int32[4,8] out=fp32[4,8]"),
                HasSubstr("copy.out: expected x's dtype int32: only floating dtypes are converted"));
    EXPECT_THAT(rejection("copy x=fp32[4,8] out=fp32[8,4]"), HasSubstr("copy.x: expected"));
    EXPECT_THAT(rejection("copy x=fp32[4,8] out=fp32[4,8]{0,1}"), HasSubstr("an output can't be broadcast"));
}

TEST(Copy, ATransposedViewAndABroadcastOne) {
    constexpr std::int64_t kRows = 70, kCols = 131;
    for (const Device device : test::host_devices()) {
        for (const DType dtype : {DType::bf16, DType::fp32, DType::int8, DType::int64}) {
            HostTensor x(dtype, {kRows, kCols}), out(dtype, {kCols, kRows}), wide(dtype, {3, kRows, 2});
            for (std::int64_t i = 0; i < kRows * kCols; ++i) x.set(i, static_cast<double>(i % 127));
            const std::int64_t turned[] = {kCols, kRows}, strides[] = {1, kCols};
            run(Copy{.x = Tensor(x.on(device).data, dtype, turned, strides, device), .out = out.on(device)});
            for (std::int64_t i = 0; i < kRows * kCols; ++i)
                ASSERT_EQ(out[i % kCols * kRows + i / kCols], static_cast<double>(i % 127)) << name(dtype);
            // Column 5 twice, for each of three.
            const std::int64_t shape[] = {3, kRows, 2}, repeated[] = {0, kCols, 0};
            const Tensor column = x.on(device).slice(1, 5, 6);
            run(Copy{.x = Tensor(column.data, dtype, shape, repeated, device), .out = wide.on(device)});
            for (std::int64_t i = 0; i < 3 * kRows * 2; ++i)
                ASSERT_EQ(wide[i], x[i / 2 % kRows * kCols + 5]) << name(dtype);
        }
    }
}

TEST(Copy, KeepsBitsAndConvertsOnce) {
    for (const Device device : test::host_devices()) {
        HostTensor x(DType::fp32, {4}, {1e-45, -0.0, 70000, std::nan("")}), same(DType::fp32, {4}),
            half(DType::fp16, {4}), narrow(DType::fp8_e4m3, {4});
        run(Copy{.x = x.on(device), .out = same.on(device)});
        EXPECT_TRUE(same == x || std::isnan(same[3]));
        EXPECT_TRUE(std::signbit(same[1]));
        run(Copy{.x = x.on(device), .out = half.on(device)});
        EXPECT_TRUE(std::isinf(half[2]) && std::isnan(half[3]));
        run(Copy{.x = x.on(device), .out = narrow.on(device)});
        EXPECT_EQ(narrow[2], 448);
    }
}

TEST(Copy, FillsWithTheValueThatTheDtypeHasForIt) {
    for (const Device device : test::host_devices()) {
        HostTensor half(DType::fp16, {3, 5}), wide(DType::bf16, {3, 5}), number(DType::int8, {7});
        run(Copy{.out = half.on(device).slice(1, 1, 4), .value = -1e30f});
        EXPECT_EQ(half[0], 0);
        for (const int i : {1, 3, 6, 13}) EXPECT_TRUE(std::isinf(half[i]) && half[i] < 0);
        run(Copy{.out = wide.on(device), .value = -1e30f});
        EXPECT_NEAR(wide[14], -1e30, 1e28);
        run(Copy{.out = number.on(device), .value = 300});
        EXPECT_EQ(number[6], 127);
    }
}

TEST(Copy, PlanMergesAxesAndWidensWords) {
    if (configuration("copy x=fp32[1] out=fp32[1]").empty()) GTEST_SKIP() << "no kernels";
    EXPECT_THAT(configuration("copy x=bf16[4,8,64] out=bf16[4,8,64]"), HasSubstr("words of 16"));
    EXPECT_THAT(configuration("copy x=bf16[1000003] out=bf16[1000003]"), HasSubstr("words of 16"));
    EXPECT_THAT(configuration("copy x=bf16[1000003] out=bf16[1000003]"), HasSubstr("then 3 elements"));
    EXPECT_THAT(configuration("copy x=bf16[512,4096]{1,512} out=bf16[512,4096]"),
                HasSubstr("tiles of 64x64, blocks=512"));
    EXPECT_THAT(configuration("copy x=bf16[16,8]{12,1} out=bf16[16,8]"), HasSubstr("words of 4"));
    EXPECT_THAT(configuration("copy x=fp32[64,512] out=bf16[64,512]"), HasSubstr("converted vectors"));
    EXPECT_THAT(configuration("copy x=fp32[64,512]{1,64} out=bf16[64,512]"), HasSubstr("converted elements"));
}

}  // namespace
}  // namespace weft
