// Attention: the error that correct fp32 arithmetic, with the weights rounded to 16 bits, may make.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "ops/attention/attention.h"
#include "weft/oracle.h"

namespace weft::attention {

// Of one row. The contract's tolerance text is this in words.
class RowError {
   public:
    // Of query q over keys k: scores x, weights p = exp(x - top) and their sum.
    RowError(const Attention& op, const std::vector<double>& q, std::span<const std::vector<double>> k,
             const std::vector<double>& x, const std::vector<double>& p, double top, double sum)
        : smallest_(op.q.dtype == DType::fp16 ? 0x1p-25 : 0) {
        const double keys = static_cast<double>(op.k.dim(1)) / 4;
        double low = 0;
        for (std::size_t j = 0; j < x.size(); ++j) {
            double size = 0;
            for (std::size_t d = 0; d < q.size(); ++d) size += std::fabs(q[d] * k[j][d]);
            const double score = (static_cast<double>(q.size()) / 4 + 16) * size * op.softmax_scale();
            const double rest = 4 * std::fabs(x[j] - top) + 2 * std::fabs(top) + 8;
            const double drift = std::min(kEps32 * (score + rest), 700.0);
            low += p[j] * std::exp(-drift);
            lse_ += p[j] / sum * drift;
            relative_.push_back(std::exp(drift));
        }
        for (double& relative : relative_) {
            relative = relative * (sum / low) - 1 + weight_rounding(op.q.dtype) + kEps32 * (keys + 32);
        }
        lse_ += kEps32 * (keys + 4 * std::fabs(top) + 16);
    }

    // What key j may add to an output's error: weight p / sum, value v.
    double of_term(std::size_t j, double weight, double v) const {
        return std::min(weight * relative_[j] + smallest_, 1.0) * std::fabs(v);
    }
    double of_lse() const { return finite(lse_); }
    // Where NaN or infinity is the right answer, there is no error.
    static double finite(double error) { return std::isfinite(error) ? error : 0; }

   private:
    // Largest relative error of rounding a weight: 8 and 11 significant bits.
    static double weight_rounding(DType dtype) {
        return dtype == DType::bf16 ? 0x1p-8 : dtype == DType::fp16 ? 0x1p-11 : 0;
    }

    double smallest_, lse_ = 0;  // smallest_: half the spacing of subnormal fp16 weights
    std::vector<double> relative_;
};

}  // namespace weft::attention
