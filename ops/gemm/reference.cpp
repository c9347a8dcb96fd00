// gemm's executable specification: double sums, the epilogue in the contract's order, rounded once.
#include <cmath>
#include <numbers>
#include <optional>
#include <vector>

#include "ops/gemm/problem.h"
#include "ops/gemm/tolerance.h"
#include "weft/op.h"

namespace weft {
namespace {

double activate(Gemm::Activation kind, double x) {
    switch (kind) {
        case Gemm::Activation::none: return x;
        case Gemm::Activation::gelu_erf: return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
        case Gemm::Activation::silu: return x / (1 + std::exp(-x));
        default: break;
    }
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

double at(const Tensor& t, std::int64_t index) { return load_element(t.dtype, t.data, index); }
double scalar(const Tensor& t) { return t ? at(t, 0) : 1.0; }

// What fp32 computes, and how far it may be off.
struct Value {
    double value = 0, error = 0;
};

// One column of weights against rows of a.
class Column {
   public:
    Column(const Gemm& op, const Tensor& weights, const gemm::WeightStrides& strides, const Tensor& scale,
           std::int64_t column)
        : k_(static_cast<std::size_t>(op.a.dim(-1))),
          weights_(k_),
          scale_(scalar(op.a_scale) * scalar(scale)),
          fp8_(is_fp8(op.a.dtype)),
          fast_(op.fast_accumulation) {
        for (std::size_t i = 0; i < k_; ++i) {
            weights_[i] = at(weights, column * strides.row + static_cast<std::int64_t>(i) * strides.step);
        }
    }

    Value times(const double* row) const {
        double sum = 0, magnitude = 0, drift = 0;  // drift: of the partial sums, see tolerance.h
        for (std::size_t i = 0; i < k_; ++i) {
            const double product = row[i] * weights_[i];
            sum += product;
            magnitude += std::fabs(product);
            if (i % gemm::kFp8Step == 0) drift += std::fabs(sum);
        }
        double error =
            (gemm::fp32_error(static_cast<std::int64_t>(k_)) + (fp8_ ? gemm::kFp8Error : 0)) * magnitude;
        if (fp8_ && fast_) error += gemm::kFp8StepError * drift;
        return {sum * scale_, (error + 2 * kEps32 * std::fabs(sum)) * std::fabs(scale_)};
    }

   private:
    std::size_t k_;
    std::vector<double> weights_;
    double scale_;
    bool fp8_, fast_;
};

Value plus(const Value& x, const Tensor& bias, std::int64_t column) {
    if (!bias) return x;
    const double b = at(bias, column);
    return {x.value + b, x.error + kEps32 * (std::fabs(x.value) + std::fabs(b))};
}

Value activated(const Gemm& op, const Value& x) {
    if (op.activation == Gemm::Activation::none) return x;
    const bool approximate = op.activation == Gemm::Activation::gelu_tanh && op.out.dtype != DType::fp32;
    return {activate(op.activation, x.value),
            1.13 * x.error + std::fabs(x.value) * (12 * kEps32 + (approximate ? 0x1p-12 : 0))};
}

// 0 · infinity where the 0 is one by rounding only: NaN is as right as an infinity.
bool undetermined(const Value& x, const Value& y) {
    return (std::isinf(x.value) && std::fabs(y.value) <= y.error) ||
           (std::isinf(y.value) && std::fabs(x.value) <= x.error);
}

Value times(const Value& x, const Value& y) {
    const double product = x.value * y.value;
    return {product, std::fabs(x.value) * y.error + std::fabs(y.value) * x.error + x.error * y.error +
                         kEps32 * std::fabs(product) + 0x1p-149};
}

void finish(const Gemm& op, const gemm::Problem& p, std::int64_t row, std::int64_t column, Value x,
            Oracle& oracle) {
    if (op.residual) {
        const double residual = at(op.residual, row * p.residual_stride + column);
        x.error += kEps32 * std::fabs(residual) + gemm::residual_rounding(op.out.dtype) * std::fabs(x.value);
        x.value += residual;
    }
    if (op.out_scale) {
        x.value /= scalar(op.out_scale);
        x.error = x.error / std::fabs(scalar(op.out_scale)) + 2 * kEps32 * std::fabs(x.value);
    }
    oracle.store(op.out, row * p.out_stride + column, x.value, x.error);
}

void reference(const Gemm& op, Oracle& oracle) {
    const gemm::Problem p = gemm::problem(op);
    const auto m = static_cast<std::size_t>(p.m), k = static_cast<std::size_t>(p.k);
    std::vector<double> a(m * k);
    for (std::size_t i = 0; i < a.size(); ++i) {
        a[i] = at(op.a, static_cast<std::int64_t>(i / k) * p.a_stride + static_cast<std::int64_t>(i % k));
    }
    for (std::int64_t column = 0; column < p.n; ++column) {
        const Column b(op, op.b, p.b, op.b_scale, column);
        std::optional<Column> up;
        if (op.up) up.emplace(op, op.up, p.up, op.up_scale, column);
        for (std::int64_t row = 0; row < p.m; ++row) {
            if (!oracle.wants(row * p.n + column)) continue;
            const double* x = a.data() + static_cast<std::size_t>(row) * k;
            Value value = activated(op, plus(b.times(x), op.bias, column));
            if (up) {
                const Value gated = plus(up->times(x), op.up_bias, column);
                if (undetermined(value, gated)) {
                    oracle.store(op.out, row * p.out_stride + column, value.value * gated.value,
                                 Oracle::kUndetermined);
                    continue;
                }
                value = times(value, gated);
            }
            finish(op, p, row, column, value, oracle);
        }
    }
}

const RegisterReference<Gemm> kReference{reference};

}  // namespace
}  // namespace weft
