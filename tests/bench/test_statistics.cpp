// Statistics that can be argued with.
#include "bench/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "verify/random.h"
#include "weft/error.h"

namespace weft {
namespace {

TEST(Statistics, OfKnownSamples) {
    const Statistics s = summarize({5, 1, 4, 2, 3});
    EXPECT_EQ(s.median, 3);
    EXPECT_EQ(s.mean, 3);
    EXPECT_EQ(s.minimum, 1);
    EXPECT_DOUBLE_EQ(s.p10, 1.4);
    EXPECT_DOUBLE_EQ(s.p90, 4.6);
    EXPECT_DOUBLE_EQ(s.deviation, std::sqrt(2.5));
    EXPECT_EQ(summarize({7}).p90, 7);
    EXPECT_DOUBLE_EQ(summarize({1, 2}).median, 1.5);
    EXPECT_THROW(summarize({}), Error);
}

// Of two samples with known medians the interval holds the true ratio about 19 times in 20.
TEST(Statistics, RatiosHaveTheIntervalThatTheySay) {
    int inside = 0;
    constexpr int kTrials = 200;
    for (int trial = 0; trial < kTrials; ++trial) {
        Random random(static_cast<std::uint64_t>(trial), 9);
        std::vector<double> slow, fast;
        for (int i = 0; i < 25; ++i) {
            slow.push_back(12 + 0.3 * random.normal());
            fast.push_back(10 + 0.3 * random.normal());
        }
        const Ratio r = ratio_of(slow, fast);
        EXPECT_LE(r.low, r.ratio);
        EXPECT_GE(r.high, r.ratio);
        inside += r.low <= 1.2 && 1.2 <= r.high ? 1 : 0;
    }
    EXPECT_GE(inside, kTrials * 88 / 100);
    EXPECT_LE(inside, kTrials * 995 / 1000);
    const std::vector<double> same = {1, 2, 3};
    EXPECT_EQ(ratio_of(same, same).ratio, 1);
    EXPECT_THROW(ratio_of(same, {}), Error);
    const std::vector<double> noisy = {9, 10, 11, 12, 14};
    const std::vector<double> slow = {1, 2, 3, 5, 8, 13, 21, 34}, fast = {1, 1.5, 2, 7, 8, 9};
    const Ratio itself = ratio_of(noisy, noisy);
    EXPECT_LT(itself.low, 1) << "both are drawn anew, each for itself";
    EXPECT_GT(itself.high, 1);
    EXPECT_DOUBLE_EQ(ratio_of(slow, fast).ratio, 6.5 / 4.5) << "of the medians, not of what was drawn";
}

TEST(Statistics, OnlyDisjointIntervalsAreAWin) {
    const Statistics a = summarize({10, 11, 12}), b = summarize({11, 12, 13}), c = summarize({20, 21, 22});
    EXPECT_TRUE(overlap(a, b));
    EXPECT_TRUE(overlap(b, a));
    EXPECT_FALSE(overlap(a, c));
    EXPECT_FALSE(overlap(c, a));
}

TEST(Statistics, GeometricMean) {
    const std::vector<double> ratios = {0.5, 2, 8};
    EXPECT_DOUBLE_EQ(geometric_mean(ratios), 2);
    EXPECT_EQ(geometric_mean({}), 1);
}

}  // namespace
}  // namespace weft
