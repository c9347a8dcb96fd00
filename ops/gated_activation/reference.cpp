// gated_activation's executable specification.
#include <cmath>
#include <numbers>
#include <vector>

#include "kit/narrow_reference.h"
#include "ops/gated_activation/gated_activation.h"
#include "weft/op.h"

namespace weft {
namespace {

struct Product {
    double value, error;
};

// act(g)·u, and what fp32 may be off by: a sigmoid's relative error is its argument's absolute error times (1
// − σ).
Product gated(GatedActivation::Activation activation, double g, double u) {
    double value, relative;
    if (activation == GatedActivation::Activation::gelu_erf) {
        value = 0.5 * g * std::erfc(-g * std::numbers::sqrt2 / 2) * u;
        relative = 16 + (g < 0 ? 2 * g * g : 0);
    } else {
        const bool silu = activation == GatedActivation::Activation::silu;
        const double t = silu ? g : 2 * std::sqrt(2 / std::numbers::pi) * (g + 0.044715 * g * g * g);
        value = g / (1 + std::exp(-t)) * u;
        relative = 16 + 5 * std::fabs(t) / (1 + std::exp(t));
    }
    // Below the smallest normal number fp32 has an absolute error only.
    const double error =
        kEps32 * relative * std::fabs(value) + 0x1p-125 * std::fabs(g * u) + 0x1p-148 * (1 + std::fabs(u));
    return {value, std::isfinite(value) && std::isfinite(error) ? error : 0};
}

// Element i of a row: a number, or a code of NVFP4 with its group's scale.
double element(const Tensor& t, const GroupScales& scales, std::int64_t begin, std::int64_t row,
               std::int64_t i) {
    const double value = load_element(t.dtype, t.data, begin + i);
    if (scales.data == nullptr) return value;
    return value * load_element(scales.dtype, scales.data, scales.at(row, i / group_columns(scales.dtype)));
}

void reference(const GatedActivation& op, Oracle& oracle) {
    const Rows rows = *fold_rows(op.out);
    const std::int64_t half = op.x ? rows.dim : 0;
    const Tensor &gate = op.x ? op.x : op.gate, &up = op.x ? op.x : op.up, &factor = op.channel_multiplier;
    const std::int64_t gate_stride = fold_rows(gate)->stride, up_stride = fold_rows(up)->stride;
    const GroupScales gates = group_scales({}, op.gate_scale, rows.rows, rows.dim),
                      ups = group_scales({}, op.up_scale, rows.rows, rows.dim);
    NarrowReference out(narrow_fields(op), oracle);
    std::vector<double> y(static_cast<std::size_t>(rows.dim)), error(y.size());
    for (std::int64_t row = 0; row < rows.rows; ++row) {
        for (std::size_t i = 0; i < y.size(); ++i) {
            const auto at = static_cast<std::int64_t>(i);
            const Product p = gated(op.activation, element(gate, gates, row * gate_stride, row, at),
                                    element(up, ups, row * up_stride + half, row, at));
            const double times = factor ? load_element(factor.dtype, factor.data, at) : 1;
            y[i] = p.value * times;
            error[i] = p.error * std::fabs(times) + (factor ? kEps32 * std::fabs(y[i]) : 0);
            if (!std::isfinite(y[i]) || !std::isfinite(error[i])) error[i] = 0;
        }
        out.store_row(row, y, error);
    }
}

const RegisterReference<GatedActivation> kReference{reference};

}  // namespace
}  // namespace weft
