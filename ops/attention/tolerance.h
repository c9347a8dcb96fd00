// Attention: the error that correct fp32 arithmetic, with the weights rounded to 16 bits, may make.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "ops/attention/attention.h"
#include "weft/oracle.h"

namespace weft::attention {

// What tensor cores lose of a sum of 128 products of fp8, of their sizes: as in gemm (ops/gemm/tolerance.h, with what was seen
// on a GPU). Longer sums are added up in fp32.
inline constexpr double kFp8Sum = 0x1p-9;

// Of one row. The contract's tolerance text is this in words.
class RowError {
   public:
    // Of query q over keys k, whose products count `scale` times: scores x (capped), weights p = exp(x - top) and their sum,
    // in which the sink takes part. `hardware`: by its instructions, which alone sum fp8 in less than fp32.
    RowError(const Attention& op, double scale, const std::vector<double>& q,
             std::span<const std::vector<double>> k, const std::vector<double>& x,
             const std::vector<double>& p, double sink, double top, double sum, bool hardware)
        : smallest_(smallest_weight(op)) {
        const bool short_sums = op.fp8_weights && hardware;
        const double keys = static_cast<double>(Extent(op).keys) / 4;
        double low = 0;
        // What a term of the sum does to it, whose score is off by `score` before it becomes a weight.
        const auto drift_of = [&](double x, double p, double score) {
            const double rest = 4 * std::fabs(x - top) + 2 * std::fabs(top) + 8;
            const double drift = std::min(score + kEps32 * rest, 700.0);
            low += p * std::exp(-drift);
            lse_ += p / sum * drift;
            return drift;
        };
        if (sink > -INFINITY) drift_of(sink, std::exp(sink - top), 0);
        for (std::size_t j = 0; j < x.size(); ++j) {
            double size = 0, product = 0;
            for (std::size_t d = 0; d < q.size(); ++d) {
                size += std::fabs(q[d] * k[j][d]);
                product += q[d] * k[j][d];
            }
            const double columns = static_cast<double>(q.size());
            const double of_sum = short_sums ? kFp8Sum * std::ceil(columns / 128) : 0;
            const double score = (kEps32 * (columns / 4 + 16) + of_sum) * size * scale;
            const double error = capped(op.softcap, product * scale, score);
            relative_.push_back(std::exp(drift_of(x[j], p[j], error)));
        }
        for (double& relative : relative_) {
            relative = relative * (sum / low) - 1 + weight_rounding(weights_dtype(op)) +
                       kEps32 * (keys + 32) + (short_sums ? kFp8Sum : 0);
        }
        lse_ += kEps32 * (keys + 4 * std::fabs(top) + 16);
    }

    // What key j may add to an output's error: weight p / sum, value v.
    double of_term(std::size_t j, double weight, double v) const {
        const double share = weight * relative_[j] + smallest_;  // no number where a score may be anything
        return (share < 1 ? share : 1) * std::fabs(v);
    }
    double of_lse() const { return finite(lse_); }
    // Where NaN or infinity is the right answer, there is no error.
    static double finite(double error) { return std::isfinite(error) ? error : 0; }

   private:
    // What is left of a score's error behind the cap: of the interval around y = |score| / softcap, the half towards 0
    // has the larger image. The cap's own error: kernels take t = 1 - 2 / (1 + e), with e = exp2 of the score times
    // one rounded factor. In units of 2^-23 of t: the two roundings of e's exponent 0.45 (y / cosh^2 y at its
    // largest), ex2.approx 1, 1 + e at most 1, rcp.approx (1 ulp) 2, the last rounding 0.5: not quite 5.
    static double capped(double softcap, double score, double error) {
        if (softcap == 0) return error;
        const double y = std::fabs(score) / softcap, nearer = y - error / softcap;
        const double passed = std::isfinite(nearer) ? std::tanh(y) - std::tanh(nearer) : 2;
        return softcap * (passed + 10 * kEps32);
    }

    // That weights are rounded to before they multiply values.
    static DType weights_dtype(const Attention& op) {
        return op.fp8_weights ? DType::fp8_e4m3 : is_fp8(op.q.dtype) ? op.out.dtype : op.q.dtype;
    }
    // Largest relative error of rounding a weight: 4, 8 and 11 significant bits.
    static double weight_rounding(DType dtype) {
        if (dtype == DType::fp8_e4m3) return 0x1p-4;
        return dtype == DType::bf16 ? 0x1p-8 : dtype == DType::fp16 ? 0x1p-11 : 0;
    }
    // What a weight may lose whatever its size: half the spacing of subnormal fp16 weights; of e4m3's, which are multiplied by
    // 2^5 before; in bf16, what ex2.approx takes as zero (below 2^-126), relative to a maximum that lags behind by 2^8. Beside a
    // sink all weights may be that small.
    static double smallest_weight(const Attention& op) {
        const DType dtype = weights_dtype(op);
        if (dtype == DType::fp8_e4m3) return 0x1p-15;
        if (is_fp8(op.k.dtype)) return 0x1p-25;  // beside codes weights may be fp16, whatever out is
        return dtype == DType::fp16 ? 0x1p-25 : dtype == DType::bf16 ? 0x1p-118 : 0;
    }

    double smallest_, lse_ = 0;
    std::vector<double> relative_;
};

}  // namespace weft::attention
