// Quantiles, bootstrap, means.
#include "bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "verify/random.h"
#include "weft/error.h"

namespace weft {

double quantile(std::span<const double> sorted, double q) {
    const double at = q * static_cast<double>(sorted.size() - 1);
    const auto low = static_cast<std::size_t>(at);
    const std::size_t high = std::min(low + 1, sorted.size() - 1);
    return sorted[low] + (at - std::floor(at)) * (sorted[high] - sorted[low]);
}

namespace {

double resampled_median(std::span<const double> from, std::vector<double>& drawn, Random& random) {
    drawn.resize(from.size());
    for (double& d : drawn)
        d = from[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(from.size())))];
    std::sort(drawn.begin(), drawn.end());
    return quantile(drawn, 0.5);
}

void require_samples(std::size_t count) {
    if (count == 0) throw Error(ErrorCode::internal, "", "", "statistics of no samples");
}

}  // namespace

Statistics summarize(std::vector<double> samples) {
    require_samples(samples.size());
    std::sort(samples.begin(), samples.end());
    const auto n = static_cast<double>(samples.size());
    Statistics s;
    s.samples = static_cast<int>(samples.size());
    s.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
    for (const double v : samples) s.deviation += (v - s.mean) * (v - s.mean);
    s.deviation = std::sqrt(s.deviation / std::max(1.0, n - 1));
    s.median = quantile(samples, 0.5);
    s.minimum = samples.front();
    s.p10 = quantile(samples, 0.1);
    s.p90 = quantile(samples, 0.9);
    return s;
}

Ratio ratio_of(std::span<const double> slow, std::span<const double> fast, std::uint64_t seed) {
    require_samples(std::min(slow.size(), fast.size()));
    constexpr int kDraws = 1000;
    Random random(seed);
    std::vector<double> a, b, ratios;
    for (int i = 0; i < kDraws; ++i) {
        ratios.push_back(resampled_median(slow, a, random) / resampled_median(fast, b, random));
    }
    std::sort(ratios.begin(), ratios.end());
    return {summarize({slow.begin(), slow.end()}).median / summarize({fast.begin(), fast.end()}).median,
            quantile(ratios, 0.025), quantile(ratios, 0.975)};
}

bool overlap(const Statistics& a, const Statistics& b) { return a.p10 <= b.p90 && b.p10 <= a.p90; }

double geometric_mean(std::span<const double> values) {
    double logs = 0;
    for (const double v : values) logs += std::log(v);
    return values.empty() ? 1 : std::exp(logs / static_cast<double>(values.size()));
}

}  // namespace weft
