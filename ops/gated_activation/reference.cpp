// gated_activation's executable specification.
#include <cmath>
#include <vector>

#include "kit/narrow_reference.h"
#include "ops/gated_activation/tolerance.h"
#include "weft/op.h"

namespace weft {
namespace {

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
    const bool eager = op.rounding == Rounding::eager;
    const auto add = [&](const Tensor& bias, std::int64_t at, double& to) {
        if (!bias) return 0.0;
        to += load_element(bias.dtype, bias.data, at);
        if (eager) to = round_to(gate.dtype, round_to(DType::fp32, to));
        return eager ? 0.0 : kEps32 * std::fabs(to);
    };
    for (std::int64_t row = 0; row < rows.rows; ++row) {
        for (std::size_t i = 0; i < y.size(); ++i) {
            const auto at = static_cast<std::int64_t>(i);
            double g = element(gate, gates, row * gate_stride, row, at),
                   u = element(up, ups, row * up_stride + half, row, at);
            const double gate_off = add(op.gate_bias, at, g), up_off = add(op.up_bias, at, u);
            const Product p = biased(op, gate.dtype, g, u, gate_off, up_off);
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
