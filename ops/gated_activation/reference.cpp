// gated_activation's executable specification.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

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

void reference(const GatedActivation& op, Oracle& oracle) {
    const Rows out = *fold_rows(op.out);
    const std::int64_t half = op.x ? out.dim : 0;
    const Tensor &gate = op.x ? op.x : op.gate, &up = op.x ? op.x : op.up;
    const std::int64_t gate_stride = fold_rows(gate)->stride, up_stride = fold_rows(up)->stride;
    std::vector<Product> products(static_cast<std::size_t>(out.dim));
    for (std::int64_t row = 0; row < out.rows; ++row) {
        double amax = 0, amax_error = 0;
        for (std::int64_t i = 0; i < out.dim; ++i) {
            Product& p = products[static_cast<std::size_t>(i)];
            p = gated(op.activation, load_element(gate.dtype, gate.data, row * gate_stride + i),
                      load_element(up.dtype, up.data, row * up_stride + half + i));
            if (std::isnan(p.value)) continue;
            amax = std::max(amax, std::fabs(p.value));
            amax_error = std::max(amax_error, p.error);
        }
        double inverse = 1, inverse_error = 0;
        if (op.scale) inverse = 1.0f / load_element(DType::fp32, op.scale.data, 0);
        if (op.token_scale) {
            const double max = max_value(op.out.dtype), scale = amax > 0 ? std::max(amax / max, 0x1p-126) : 1;
            // Where fp32 may flush the whole row to zero, the scale may be 1 instead.
            const bool vanishing = amax > 0 && amax <= amax_error;
            const double error = vanishing                          ? 1
                                 : amax > 0 && std::isfinite(scale) ? amax_error / max + 2 * kEps32 * scale
                                                                    : 0;
            oracle.store(op.token_scale, row, scale, error);
            inverse = 1 / scale;
            inverse_error = vanishing ? 1 : std::isfinite(scale) ? error / scale + 2 * kEps32 : 0;
        }
        for (std::int64_t i = 0; i < out.dim; ++i) {
            const Product& p = products[static_cast<std::size_t>(i)];
            const double value = p.value * inverse;
            const double error = p.error * inverse + std::fabs(value) * (2 * kEps32 + inverse_error);
            oracle.store(op.out, row * out.stride + i, value, std::isfinite(error) ? error : 0);
        }
    }
}

const RegisterReference<GatedActivation> kReference{reference};

}  // namespace
}  // namespace weft
