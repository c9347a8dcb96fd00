// amax: what generated cases don't say.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "ops/amax/amax.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

TEST(Amax, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("amax x=int8[4,8] amax=fp32[1]"), HasSubstr("amax.x: expected dtype"));
    EXPECT_THAT(rejection("amax x=bf16[4,8] amax=bf16[1]"), HasSubstr("amax.amax: expected dtype fp32"));
    EXPECT_THAT(rejection("amax x=bf16[4,8] amax=fp32[2]"), HasSubstr("amax.amax: expected"));
    EXPECT_THAT(rejection("amax x=bf16[4,8]{16,2} amax=fp32[1]"),
                HasSubstr("amax.x: the last axis must be contiguous"));
}

TEST(Amax, RunsOverManyCalls) {
    HostTensor small(DType::bf16, {2, 3}, {1, -2, 0, 0.5, 1, 1}),
        large(DType::bf16, {1, 5}, {0, 0, 0, -8, 1});
    HostTensor empty(DType::bf16, {0, 3});
    for (const Device device : test::host_devices()) {
        HostTensor amax(DType::fp32, {1}, {-3});
        run(Amax{.x = small.on(device), .amax = amax.on(device)});
        EXPECT_EQ(amax[0], 2);  // a negative start counts as none
        run(Amax{.x = large.on(device), .amax = amax.on(device)});
        EXPECT_EQ(amax[0], 8);
        run(Amax{.x = small.on(device), .amax = amax.on(device)});
        run(Amax{.x = empty.on(device), .amax = amax.on(device)});
        EXPECT_EQ(amax[0], 8);
    }
}

TEST(Amax, ReportsNan) {
    HostTensor x(DType::fp32, {2, 9}, std::vector<double>(18, 1.0)), after(DType::fp32, {1}, {5});
    x.set(11, -std::numeric_limits<double>::quiet_NaN());
    for (const Device device : test::host_devices()) {
        HostTensor amax(DType::fp32, {1}, {2});
        run(Amax{.x = x.on(device), .amax = amax.on(device)});
        run(Amax{.x = after.on(device), .amax = amax.on(device)});
        EXPECT_TRUE(std::isnan(amax[0]));
    }
}

}  // namespace
}  // namespace weft
