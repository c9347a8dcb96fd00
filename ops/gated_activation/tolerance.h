// What the reference of gated_activation computes: one product in double, and what fp32 may be off by.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/gated_activation/gated_activation.h"
#include "weft/oracle.h"

namespace weft {

struct Product {
    double value, error;
};

// act(g)·u, and what fp32 may be off by: a sigmoid's relative error is its argument's absolute error times (1
// − σ).
inline Product gated(GatedActivation::Activation activation, double g, double u) {
    using Activation = GatedActivation::Activation;
    double value = 0, relative = 0, factor = g;  // factor: what the sigmoid multiplies beside u
    const auto by_sigmoid = [&](double t) {
        value = factor / (1 + std::exp(-t)) * u;
        relative = 16 + 5 * std::fabs(t) / (1 + std::exp(t));
    };
    switch (activation) {
        case Activation::gelu_erf:
            value = 0.5 * g * std::erfc(-g * std::numbers::sqrt2 / 2) * u;
            relative = 16 + (g < 0 ? 2 * g * g : 0);
            break;
        case Activation::relu: value = (g < 0 ? 0 : g) * u, relative = 2; break;
        case Activation::gelu_tanh:
            by_sigmoid(2 * std::sqrt(2 / std::numbers::pi) * (g + 0.044715 * g * g * g));
            break;
        case Activation::gelu_quick: by_sigmoid(1.702 * g); break;
        case Activation::sigmoid: factor = 1; [[fallthrough]];
        default: by_sigmoid(g);
    }
    // Below the smallest normal number fp32 has an absolute error only.
    const double error = kEps32 * relative * std::fabs(value) + 0x1p-125 * std::fabs(factor * u) +
                         0x1p-148 * (1 + std::fabs(u));
    return {value, std::isfinite(value) && std::isfinite(error) ? error : 0};
}

// With rounding=eager: the activation rounded to `dtype`, times u. Where what fp32 may be off by reaches over a rounding
// boundary, the rounded activation may be the neighbour; elsewhere the product is exact but for its own rounding.
inline Product eager_gated(GatedActivation::Activation activation, DType dtype, double g, double u) {
    Product act = gated(activation, g, 1);
    using Activation = GatedActivation::Activation;
    if (activation == Activation::relu) act.error = 0;  // nothing is computed
    // PyTorch's 1 + tanh and 1 + erf cancel.
    if (activation == Activation::gelu_tanh || activation == Activation::gelu_erf)
        act.error += 8 * kEps32 * std::fabs(g);
    if (!std::isfinite(act.value) || !std::isfinite(act.error)) return {act.value * u, 0};
    const double rounded = round_to(dtype, act.value);
    const double off = std::max(std::fabs(round_to(dtype, act.value + act.error) - rounded),
                                std::fabs(round_to(dtype, act.value - act.error) - rounded));
    const double y = rounded * u;
    return {y, off * std::fabs(u) + (dtype == DType::fp32 ? kEps32 * std::fabs(y) : 0)};
}

// The product of what biases were added to; `gate_off` and `up_off` are what the sums may be off by.
inline Product biased(const GatedActivation& op, DType dtype, double g, double u, double gate_off,
                      double up_off) {
    if (op.rounding == Rounding::eager) return eager_gated(op.activation, dtype, g, u);
    Product p = gated(op.activation, g, u);
    if (gate_off == 0 && up_off == 0) return p;
    constexpr double kSlope = 1.13;  // the largest of these activations
    const double most = op.activation == GatedActivation::Activation::sigmoid ? 1 : std::fabs(g) + gate_off;
    p.error += kSlope * (gate_off * std::fabs(u) + most * up_off);
    return p;
}

}  // namespace weft
