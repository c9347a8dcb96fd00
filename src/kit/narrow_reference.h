// What the references of all ops that store fewer bits share: scales and codes, with the errors that fp32 arithmetic may
// make there. Where the values are exact, so are scales and codes: the fp32 operations are the kernels' own.
#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <vector>

#include "weft/narrow.h"
#include "weft/oracle.h"
#include "weft/row_map.h"

namespace weft {

// The fields by which a call stores its output; a field that the op lacks is absent.
struct NarrowFields {
    Tensor out{}, scale{}, token_scale{}, group_scale{}, swizzled_scale{};
};
template <class Op>
NarrowFields narrow_fields(const Op& op) {
    return {op.out, op.scale, op.token_scale, op.group_scale, op.swizzled_scale};
}

// The largest magnitude of values that are known within ± error. NaN has none, but is remembered.
struct NarrowAmax {
    double value = 0, error = 0;
    bool nan = false;

    void add(double y, double y_error) {
        if (std::isnan(y)) nan = true;
        value = std::max(value, std::isnan(y) ? 0 : std::fabs(y));
        if (std::isfinite(y_error)) error = std::max(error, y_error);
    }
};

// A scale as it is stored, within the numbers that correct arithmetic may store, and what the values are multiplied by.
struct NarrowScale {
    double value = 1, low = 1, high = 1;
    double error =
        0;  // of the number that is rounded to be `value`: where that is fp32, nothing more is rounded
    double rounded = 1;  // that number
    double inverse = 1, inverse_low = 1, inverse_high = 1;
    bool poisoned = false;  // NaN: codes that have no NaN are 0

    static NarrowScale given(float scale) {
        NarrowScale s;
        s.value = s.low = s.high = s.rounded = scale;
        s.inverse = s.inverse_low = s.inverse_high = 1.0f / scale;
        return s;
    }
};

constexpr bool codes_have_nan(DType codes) { return is_fp8(codes); }

// A scale in fp32: amax / max, at least 2⁻¹²⁶ so that its reciprocal is finite; 1 exactly where all values are 0.
// `levels`: the largest number of the format, its code's times its second scale's.
inline NarrowScale fp32_scale(const NarrowAmax& amax, DType codes, double levels) {
    if (amax.nan && !codes_have_nan(codes)) {
        NarrowScale s = NarrowScale::given(NAN);
        s.poisoned = true;
        return s;
    }
    NarrowScale s;
    const bool exact = amax.error == 0;
    if (amax.value > 0) {
        const float quotient = static_cast<float>(amax.value) / static_cast<float>(levels);
        s.rounded = std::max(exact ? static_cast<double>(quotient) : amax.value / levels, 0x1p-126);
    }
    if (!exact && std::isfinite(amax.value)) s.error = amax.error / levels + kEps32 * s.rounded;
    if (amax.value <= amax.error && !exact) s.error = std::max(s.error, 1.0);  // it may be 0, so the scale 1
    s.value = static_cast<float>(s.rounded);
    s.low = s.value - s.error;
    s.high = s.value + s.error;
    s.inverse = 1.0f / static_cast<float>(s.value);
    s.inverse_low = s.low > 0 ? 1 / s.low : INFINITY;
    s.inverse_high = 1 / s.high;
    return s;
}

// The next power of two from `x` on, of those that ue8m0 has.
inline double power_above(double x) {
    if (std::isnan(x)) return x;
    if (x >= 0x1p127) return 0x1p127;
    int exponent = 0;
    const double fraction = std::frexp(std::max(x, 0x1p-127), &exponent);
    return std::ldexp(1.0, fraction == 0.5 ? exponent - 1 : exponent);
}

// A group's scale: in fp32; in ue4m3, amax / 6 over the tensor's scale, rounded to nearest; or in ue8m0, the power of
// two from amax / max on.
inline NarrowScale group_scale_of(const NarrowAmax& amax, DType codes, DType scales, double tensor_scale) {
    if (scales == DType::fp32) return fp32_scale(amax, codes, max_value(codes));
    const auto store = [&](double x) {
        return scales == DType::ue8m0 ? power_above(x) : round_to(scales, x);
    };
    const auto inverse = [&](double stored) -> double {
        if (stored == 0) return 0;
        if (scales == DType::ue8m0) return 1 / stored;
        const float product = static_cast<float>(stored) * static_cast<float>(tensor_scale);
        return std::min(std::max(1.0f / product, FLT_MIN), FLT_MAX);
    };
    NarrowScale s;
    const float over = 1.0f / static_cast<float>(tensor_scale);
    s.rounded = scales == DType::ue8m0 ? amax.value / max_value(codes)
                                       : static_cast<double>(static_cast<float>(amax.value) * over /
                                                             static_cast<float>(max_value(codes)));
    if (amax.nan && !codes_have_nan(codes)) s.rounded = NAN;
    s.poisoned = std::isnan(s.rounded);
    if (amax.error > 0 && std::isfinite(s.rounded))
        s.error = amax.error * over / max_value(codes) + 2 * kEps32 * s.rounded;
    s.low = store(s.rounded - s.error);
    s.high = store(s.rounded + s.error);
    s.value = scales == DType::ue8m0 && s.high <= 2 * s.low ? s.high : store(s.rounded);
    s.inverse = inverse(s.value);
    s.inverse_low = inverse(s.low);
    s.inverse_high = inverse(s.high);
    return s;
}

class NarrowReference {
   public:
    NarrowReference(const NarrowFields& fields, Oracle& oracle)
        : fields_(fields),
          oracle_(oracle),
          map_(*map_rows(fields.out, fields.out)),
          groups_(group_scales(fields.group_scale, fields.swizzled_scale, row_count(fields.out),
                               fields.out.dim(-1))),
          given_(fields.scale ? static_cast<float>(load_element(DType::fp32, fields.scale.data, 0)) : 1.0f) {}

    // For an op that finds the tensor's scale.
    void tensor_scale(float scale) { given_ = scale; }

    // Row `row`, whose values are y within ± error.
    void store_row(std::int64_t row, const std::vector<double>& y, const std::vector<double>& error) {
        if (groups_.data != nullptr) return store_groups(row, y, error);
        NarrowScale scale = NarrowScale::given(given_);
        if (fields_.token_scale) {
            NarrowAmax amax;
            for (std::size_t i = 0; i < y.size(); ++i) amax.add(y[i], error[i]);
            scale = fp32_scale(amax, fields_.out.dtype, max_value(fields_.out.dtype));
            oracle_.store(fields_.token_scale, row, scale.rounded, scale.error);
        }
        for (std::size_t i = 0; i < y.size(); ++i)
            store_code(row, static_cast<std::int64_t>(i), y[i], error[i], scale);
    }

    // One element, y within ± error.
    void store_code(std::int64_t row, std::int64_t column, double y, double error, const NarrowScale& scale) {
        const std::int64_t at = map_.offset(row) + column;
        if (!kNarrow.contains(fields_.out.dtype)) return oracle_.store(fields_.out, at, y, error);
        if (scale.poisoned) return oracle_.store(fields_.out, at, 0, 0);
        const bool exact = error == 0 && scale.low == scale.high;
        // A number that fp32 holds is multiplied as kernels do it, so that ties go the same way.
        const auto stored = static_cast<float>(y);
        const double value =
            exact || stored == y ? stored * static_cast<float>(scale.inverse) : y * scale.inverse;
        double bound = 0;
        if (!exact) {
            for (const double inverse : {scale.inverse_low, scale.inverse_high}) {
                bound = std::max(bound, std::fabs(y * inverse - value) + error * inverse);
            }
            bound = std::max(bound, error * scale.inverse) + std::fabs(value) * 2 * kEps32;
            if (!std::isfinite(scale.inverse_low))
                bound = 2 * max_value(fields_.out.dtype);  // errors, blown up
        }
        if (std::isnan(value) && !codes_have_nan(fields_.out.dtype))
            return oracle_.store(fields_.out, at, 0, 0);
        if (!std::isfinite(value) || !std::isfinite(bound)) bound = 0;
        oracle_.store(fields_.out, at, value, bound);
    }

   private:
    void store_groups(std::int64_t row, const std::vector<double>& y, const std::vector<double>& error) {
        const Tensor& scales = fields_.group_scale ? fields_.group_scale : fields_.swizzled_scale;
        const auto columns = static_cast<std::size_t>(group_columns(scales.dtype));
        for (std::int64_t group = 0; group < groups_.groups; ++group) {
            const std::size_t first = static_cast<std::size_t>(group) * columns,
                              last = std::min(first + columns, y.size());
            NarrowAmax amax;
            for (std::size_t i = first; i < last; ++i) amax.add(y[i], error[i]);
            const NarrowScale scale =
                group_scale_of(amax, fields_.out.dtype, scales.dtype, static_cast<double>(given_));
            if (scales.dtype == DType::ue8m0 && scale.high > 2 * scale.low) {
                // Values near 0, of which an error leaves little: every power that it may make of the largest.
                oracle_.store(scales, groups_.at(row, group), (scale.low + scale.high) / 2,
                              (scale.high - scale.low) / 2);
                store_element(scales.dtype, scales.data, groups_.at(row, group), scale.value);
            } else if (scales.dtype == DType::ue8m0) {
                // From the larger of two possible powers 0.3 down is nearest to the smaller one.
                const double error_of = scale.low < scale.high ? 0.3 * scale.high : 0;
                oracle_.store(scales, groups_.at(row, group), scale.value, error_of);
            } else {
                oracle_.store(scales, groups_.at(row, group), scale.rounded, scale.error);
            }
            for (std::size_t i = first; i < last; ++i)
                store_code(row, static_cast<std::int64_t>(i), y[i], error[i], scale);
        }
        // The padding of tiles: beyond the row's last group, and below the last row.
        for (std::int64_t r = row; r < groups_.padded_rows; r += groups_.rows) {
            for (std::int64_t g = r == row ? groups_.groups : 0; g < groups_.padded_groups; ++g)
                oracle_.store_exact(scales, groups_.at(r, g), 0);
        }
    }

    const NarrowFields fields_;
    Oracle& oracle_;
    const RowMap map_;
    const GroupScales groups_;
    float given_;
};

}  // namespace weft
