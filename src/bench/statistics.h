// Statistics of samples, and of ratios of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft {

struct Statistics {
    double median = 0, mean = 0, deviation = 0, minimum = 0, p10 = 0, p90 = 0;
    int samples = 0;
};
// Between the two samples around it.
double quantile(std::span<const double> sorted, double q);
// Throws where there are no samples.
Statistics summarize(std::vector<double> samples);

// How many times faster: the median of `slow` over the median of `fast`, with the interval that holds 95 % of
// the ratios of resampled medians (bootstrap, 1000 draws of a fixed seed).
struct Ratio {
    double ratio = 0, low = 0, high = 0;
};
Ratio ratio_of(std::span<const double> slow, std::span<const double> fast, std::uint64_t seed = 1);

// Only then is a win or a loss more than noise: the p10-p90 intervals have no time in common.
bool overlap(const Statistics& a, const Statistics& b);

// 1 where there are none.
double geometric_mean(std::span<const double> values);

}  // namespace weft
