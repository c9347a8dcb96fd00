// gemm's executable specification: double sums, the epilogue in the contract's order, rounded once.
#include <cmath>
#include <numbers>
#include <vector>

#include "ops/gemm/problem.h"
#include "ops/gemm/tolerance.h"
#include "weft/op.h"

namespace weft {
namespace {

double gelu(Gemm::Activation kind, double x) {
    if (kind == Gemm::Activation::gelu_erf) return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

double at(const Tensor& t, std::int64_t index) { return load_element(t.dtype, t.data, index); }
double scalar(const Tensor& t) { return t ? at(t, 0) : 1.0; }

void epilogue(const Gemm& op, const gemm::Problem& p, std::int64_t row, std::int64_t column, double value,
              double error, Oracle& oracle) {
    if (op.bias) {
        const double bias = at(op.bias, column);
        error += kEps32 * (std::fabs(value) + std::fabs(bias));
        value += bias;
    }
    if (op.activation != Gemm::Activation::none) {
        const bool approximate = op.activation == Gemm::Activation::gelu_tanh && op.out.dtype != DType::fp32;
        error = 1.13 * error + std::fabs(value) * (12 * kEps32 + (approximate ? 0x1p-12 : 0));
        value = gelu(op.activation, value);
    }
    if (op.residual) {
        const double residual = at(op.residual, row * p.residual_stride + column);
        error += kEps32 * std::fabs(residual) + gemm::residual_rounding(op.out.dtype) * std::fabs(value);
        value += residual;
    }
    if (op.out_scale) {
        value /= scalar(op.out_scale);
        error = error / std::fabs(scalar(op.out_scale)) + 2 * kEps32 * std::fabs(value);
    }
    oracle.store(op.out, row * p.out_stride + column, value, error);
}

void reference(const Gemm& op, Oracle& oracle) {
    const gemm::Problem p = gemm::problem(op);
    const double scale = scalar(op.a_scale) * scalar(op.b_scale);
    const bool fp8 = is_fp8(op.a.dtype);
    const double unit = gemm::fp32_error(p.k) + (fp8 ? gemm::kFp8Error : 0);
    const auto m = static_cast<std::size_t>(p.m), k = static_cast<std::size_t>(p.k);
    std::vector<double> a(m * k), b(k);
    for (std::size_t i = 0; i < a.size(); ++i) {
        a[i] = at(op.a, static_cast<std::int64_t>(i / k) * p.a_stride + static_cast<std::int64_t>(i % k));
    }
    for (std::int64_t column = 0; column < p.n; ++column) {
        for (std::int64_t i = 0; i < p.k; ++i) {
            b[static_cast<std::size_t>(i)] = at(op.b, column * p.b_row + i * p.b_step);
        }
        for (std::int64_t row = 0; row < p.m; ++row) {
            if (!oracle.wants(row * p.n + column)) continue;
            const double* x = a.data() + static_cast<std::size_t>(row) * k;
            double sum = 0, magnitude = 0, drift = 0;  // drift: of the partial sums, see tolerance.h
            for (std::size_t i = 0; i < k; ++i) {
                const double product = x[i] * b[i];
                sum += product;
                magnitude += std::fabs(product);
                if (i % gemm::kFp8Step == 0) drift += std::fabs(sum);
            }
            double error = unit * magnitude;
            if (fp8 && op.fast_accumulation) error += gemm::kFp8StepError * drift;
            error = (error + 2 * kEps32 * std::fabs(sum)) * std::fabs(scale);
            epilogue(op, p, row, column, sum * scale, error, oracle);
        }
    }
}

const RegisterReference<Gemm> kReference{reference};

}  // namespace
}  // namespace weft
