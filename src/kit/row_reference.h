// What the references of row ops share: the row that is read, and how a row is stored, scaled where it is
// fp8.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "weft/oracle.h"

namespace weft {

// Row `row` of x, or of x + residual rounded to the residual's dtype; the latter goes to residual_out too.
inline std::vector<double> reference_row(const Tensor& x, const Tensor& residual, const Tensor& residual_out,
                                         std::int64_t row, Oracle& oracle) {
    const Rows rows = *fold_rows(x);
    std::vector<double> r(static_cast<std::size_t>(rows.dim)), sum(r.size());
    for (std::int64_t i = 0; i < rows.dim; ++i) {
        double v = load_element(x.dtype, x.data, row * rows.stride + i);
        if (residual) {
            const double other =
                load_element(residual.dtype, residual.data, row * fold_rows(residual)->stride + i);
            sum[static_cast<std::size_t>(i)] = v + other;
            v = round_to(residual.dtype,
                         static_cast<double>(static_cast<float>(v) + static_cast<float>(other)));
        }
        r[static_cast<std::size_t>(i)] = v;
    }
    if (residual_out) {
        const std::int64_t stride = fold_rows(residual_out)->stride;
        for (std::int64_t i = 0; i < rows.dim; ++i) {
            const double v = sum[static_cast<std::size_t>(i)];
            oracle.store(residual_out, row * stride + i, v, std::isfinite(v) ? kEps32 * std::fabs(v) : 0);
        }
    }
    return r;
}

// The fp8 scale of a row whose values are y ± error, with its own error; 1 exactly where all are exactly 0.
struct ReferenceScale {
    double value = 1, error = 0;
};
inline ReferenceScale reference_scale(DType dtype, const std::vector<double>& y,
                                      const std::vector<double>& error) {
    double amax = 0, worst = 0;  // NaN has no magnitude
    for (std::size_t i = 0; i < y.size(); ++i) {
        amax = std::max(amax, std::isnan(y[i]) ? 0 : std::fabs(y[i]));
        if (std::isfinite(error[i])) worst = std::max(worst, error[i]);
    }
    ReferenceScale scale;
    if (amax > 0) scale.value = std::max(amax / max_value(dtype), 0x1p-126);
    if (std::isfinite(amax)) scale.error = worst / max_value(dtype) + kEps32 * scale.value;
    if (amax <= worst && worst > 0) scale.error = std::max(scale.error, 1.0);  // it may be 0, so the scale 1
    return scale;
}

// Stores a row, y within ± error.
inline void reference_store(const Tensor& out, const Tensor& scale, const Tensor& token_scale,
                            std::int64_t row, const std::vector<double>& y, const std::vector<double>& error,
                            Oracle& oracle) {
    ReferenceScale s;
    if (scale) s.value = load_element(DType::fp32, scale.data, 0);
    if (token_scale) {
        s = reference_scale(out.dtype, y, error);
        oracle.store(token_scale, row, s.value, s.error);
    }
    const double inverse = is_fp8(out.dtype) ? static_cast<double>(1.0f / static_cast<float>(s.value)) : 1;
    const std::int64_t stride = fold_rows(out)->stride;
    for (std::size_t i = 0; i < y.size(); ++i) {
        const double value = y[i] * inverse;
        double bound = error[i] * inverse;
        if (is_fp8(out.dtype)) bound += std::fabs(value) * (2 * kEps32 + s.error / s.value);
        if (s.error >= s.value) bound = 2 * max_value(out.dtype);  // nothing but rounding errors, blown up
        if (!std::isfinite(value) || !std::isfinite(bound)) bound = 0;
        oracle.store(out, row * stride + static_cast<std::int64_t>(i), value, bound);
    }
}

}  // namespace weft
