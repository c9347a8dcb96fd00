// histogram: what generated cases don't say.
#include <gmock/gmock.h>

#include "ops/histogram/histogram.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

TEST(Histogram, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("histogram x=int32[4,8] counts=int32[9] bins=10"),
                HasSubstr("histogram.counts: expected [bins=10], got [9]"));
    EXPECT_THAT(rejection("histogram x=fp32[4,8] counts=int32[10] bins=10"), HasSubstr("expected dtype"));
}

// Public kernels read their vectors' tails beyond the array and write counts of values below 0 before it.
TEST(Histogram, ValuesOutOfRangeAreAnErrorOrNotCounted) {
    HostTensor x(DType::int32, {7}, {0, 1, -1, 4, 1, 3, 1000}), counts(DType::int32, {4}, {9, 9, 9, 9});
    EXPECT_THAT(test::failure(Histogram{.x = x.on(kCpu), .counts = counts.on(kCpu), .bins = 4}),
                HasSubstr("got -1"));
    for (const Device device : test::host_devices()) {
        if (device == kCpu) continue;
        run(Histogram{.x = x.on(device), .counts = counts.on(device), .bins = 4});
        const double expected[] = {1, 2, 0, 1};
        for (int i = 0; i < 4; ++i) EXPECT_EQ(counts[i], expected[i]);
    }
}

TEST(Histogram, NoElementsAreNoCounts) {
    for (const Device device : test::host_devices()) {
        HostTensor x(DType::uint8, {0}), counts(DType::int32, {3}, {7, 7, 7});
        run(Histogram{.x = x.on(device), .counts = counts.on(device), .bins = 3});
        for (int i = 0; i < 3; ++i) EXPECT_EQ(counts[i], 0);
    }
}

TEST(Histogram, PolicyCountsInSharedMemoryWhereItFits) {
    if (test::configuration("histogram x=int32[8] counts=int32[256]").empty()) GTEST_SKIP() << "no kernels";
    EXPECT_THAT(test::configuration("histogram x=int32[1048576] counts=int32[8192] bins=8192"),
                HasSubstr("shared counts"));
    EXPECT_THAT(test::configuration("histogram x=int32[1048576] counts=int32[8193] bins=8193"),
                HasSubstr("global counts"));
}

}  // namespace
}  // namespace weft
