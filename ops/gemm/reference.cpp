// gemm's executable specification: double sums, the epilogue in the contract's order, rounded once.
#include <cmath>
#include <numbers>
#include <vector>

#include "ops/gemm/problem.h"
#include "ops/gemm/tolerance.h"
#include "weft/op.h"

namespace weft {
namespace {

using gemm::Value;

double activate(Gemm::Activation kind, double x) {
    switch (kind) {
        case Gemm::Activation::none: return x;
        case Gemm::Activation::gelu_erf: return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
        case Gemm::Activation::silu: return x / (1 + std::exp(-x));
        default: break;  // gelu_tanh
    }
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

double at(const Tensor& t, std::int64_t index) { return load_element(t.dtype, t.data, index); }
double scalar(const Tensor& t) { return t ? at(t, 0) : 1.0; }

// Row n of weights.
std::vector<double> weights_of(const Tensor& t, std::int64_t n) {
    std::vector<double> weights(static_cast<std::size_t>(t.dim(1)));
    std::int64_t index = n * t.stride[0];
    for (double& weight : weights) weight = at(t, index), index += t.stride[1];
    return weights;
}

// A row of a against row n of weights, scaled and biased.
Value product(const Gemm& op, const double* row, const std::vector<double>& weights, const Tensor& scale,
              const Tensor& bias, std::int64_t n, bool hardware) {
    const Value sum = gemm::scaled_sum(op, row, weights.data(), scalar(op.a_scale) * scalar(scale), hardware);
    return bias ? plus(sum, at(bias, n)) : sum;
}

void reference(const Gemm& op, Oracle& oracle) {
    const gemm::Problem p = gemm::problem(op);
    std::vector<double> a(static_cast<std::size_t>(p.m * p.k));
    for (std::int64_t i = 0; i < p.m * p.k; ++i) {
        a[static_cast<std::size_t>(i)] = at(op.a, i / p.k * p.a_stride + i % p.k);
    }
    for (std::int64_t n = 0; n < p.n; ++n) {
        const std::vector<double> b = weights_of(op.b, n), up = op.up ? weights_of(op.up, n) : b;
        for (std::int64_t m = 0; m < p.m; ++m) {
            if (!oracle.wants(m * p.n + n)) continue;
            const double* row = a.data() + m * p.k;
            const Value x = product(op, row, b, op.b_scale, op.bias, n, oracle.hardware());
            Value y = activated(op, x, activate(op.activation, x.value), oracle.hardware());
            bool determined = true;
            if (op.up) {
                const Value gated = product(op, row, up, op.up_scale, op.up_bias, n, oracle.hardware());
                determined = !undetermined(y, gated);
                y = times(y, gated);
            }
            if (op.residual) {
                y = plus_residual(y, at(op.residual, m * p.residual_stride + n), op.out.dtype);
            }
            if (op.out_scale) y = divided(y, scalar(op.out_scale));
            oracle.store(op.out, m * p.out_stride + n, y.value, determined ? y.error : Oracle::kUndetermined);
        }
    }
}

const RegisterReference<Gemm> kReference{reference};

}  // namespace
}  // namespace weft
