// What the reference of activation computes: each function in double, and what fp32 may be off by.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/activation/activation.h"
#include "weft/oracle.h"

namespace weft {

struct ActivationResult {
    double value, error, slope;  // slope: the largest by which an error of x grows
};

// factor·σ(t): a sigmoid's relative error is its argument's absolute error times (1 − σ).
inline ActivationResult by_sigmoid(double factor, double t) {
    const double value = factor / (1 + std::exp(-t));
    const double relative = 16 + 5 * std::fabs(t) / (1 + std::exp(t));
    return {value, kEps32 * relative * std::fabs(value) + 0x1p-125 * std::fabs(factor) + 0x1p-148, 1.13};
}

inline ActivationResult activated(const Activate& op, double x) {
    const double alpha = op.alpha, eps = kEps32;
    using Activation = Activate::Activation;
    const bool eager = op.rounding == Rounding::eager;
    switch (op.activation) {
        case Activation::silu: return by_sigmoid(x, x);
        case Activation::gelu_quick: return by_sigmoid(x, 1.702 * x);
        case Activation::sigmoid: return by_sigmoid(1, x);
        case Activation::gelu_tanh: {
            ActivationResult r =
                by_sigmoid(x, 2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x));
            if (eager) r.error += 8 * eps * std::fabs(x);  // PyTorch's 1 + tanh cancels
            return r;
        }
        case Activation::gelu_erf: {
            const double value = 0.5 * x * std::erfc(-x * std::numbers::sqrt2 / 2);
            const double relative = 16 + (x < 0 ? 2 * x * x : 0);
            // Where erfc is subnormal, x times what it may be off by: two of its units.
            const double least = 0x1p-148 * (1 + std::fabs(x));
            return {value, eps * (relative * std::fabs(value) + (eager ? 8 * std::fabs(x) : 0)) + least,
                    1.13};
        }
        case Activation::tanh: return {std::tanh(x), 8 * eps * std::fabs(std::tanh(x)), 1};
        case Activation::relu: return {x < 0 ? 0 : x, 0, 1};
        case Activation::relu2: return {x < 0 ? 0 : x * x, x < 0 ? 0 : 2 * eps * x * x, x < 0 ? 0 : 2.01 * x};
        case Activation::leaky_relu: {
            const double value = x < 0 ? alpha * x : x;
            return {value, x < 0 ? 2 * eps * std::fabs(value) : 0, std::max(1.0, alpha)};
        }
        case Activation::elu: {
            const double value = x < 0 ? alpha * std::expm1(x) : x;
            return {value, x < 0 ? 8 * eps * std::fabs(value) : 0, std::max(1.0, alpha)};
        }
        case Activation::hardswish: {
            const double value = x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6;
            if (eager && std::isinf(x) && x < 0) return {std::nan(""), 0, 0};  // PyTorch's −∞·0
            return {value, 8 * eps * std::fabs(value) + (std::fabs(x) < 3 ? eps * std::fabs(x) : 0), 1.5};
        }
        case Activation::hardshrink: return {std::fabs(x) <= alpha ? 0 : x, 0, 1};
        default: return {x, 0, 1};
    }
}

}  // namespace weft
