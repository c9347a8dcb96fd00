// gemm's executable specification: double sums, the epilogue in the contract's order, rounded once.
#include <vector>

#include "ops/gemm/problem.h"
#include "ops/gemm/tolerance.h"
#include "weft/op.h"

namespace weft {
namespace {

using gemm::Value;

double at(const Tensor& t, std::int64_t index) { return load_element(t.dtype, t.data, index); }
double scalar(const Tensor& t) { return t ? at(t, 0) : 1.0; }

// k elements of row `row` of an operand, from `begin` on and `step` apart, less their groups' zero points, times their scales.
std::vector<double> row_of(const Tensor& t, std::int64_t row, std::int64_t begin, std::int64_t step,
                           std::int64_t k, const gemm::ScalesAlong& scales) {
    std::vector<double> elements;
    for (std::int64_t i = 0; i < k; ++i)
        elements.push_back((at(t, begin + i * step) - scales.zero(row, i)) * scales.at(row, i));
    return elements;
}
std::vector<double> weights_of(const Tensor& t, const gemm::ScalesAlong& scales, std::int64_t n) {
    return row_of(t, n, n * t.stride[0], t.stride[1], t.dim(1), scales);
}

// Of a row, which may have a scale of its own.
double scale_of(const Tensor& rows, const Tensor& tensor, std::int64_t row) {
    return rows ? at(rows, row) : scalar(tensor);
}

// A row of a against row n of weights, scaled and biased.
Value product(const Gemm& op, const double* row, const std::vector<double>& weights, double scale,
              const Tensor& bias, std::int64_t n, bool hardware) {
    const Value sum = gemm::scaled_sum(op, row, weights.data(), scale, hardware);
    return bias ? plus(sum, at(bias, n)) : sum;
}

void reference(const Gemm& op, Oracle& oracle) {
    const gemm::Problem p = gemm::problem(op);
    const gemm::Beside gate(op.gate, op.out), residual(op.residual, op.out);
    const gemm::ScalesAlong a_scales = gemm::scales_of_a(op), b_scales = gemm::scales_of_b(op),
                            up_scales = gemm::scales_of_up(op);
    std::vector<std::vector<double>> a;
    for (std::int64_t m = 0; m < p.m; ++m) a.push_back(row_of(op.a, m, m * p.a_stride, 1, p.k, a_scales));
    for (std::int64_t n = 0; n < p.n; ++n) {
        const std::vector<double> b = weights_of(op.b, b_scales, n),
                                  up = op.up ? weights_of(op.up, up_scales, n) : b;
        const double b_scale = scale_of(op.b_channel_scale, op.b_scale, n),
                     up_scale = scale_of(op.up_channel_scale, op.up_scale, n);
        const bool holds = !gemm::beyond(op, b) && !gemm::beyond(op, up);
        for (std::int64_t m = 0; m < p.m; ++m) {
            if (!oracle.wants(m * p.n + n)) continue;
            const double* row = a[static_cast<std::size_t>(m)].data();
            const double scale = scale_of(op.a_token_scale, op.a_scale, m);
            const Value x = product(op, row, b, scale * b_scale, op.bias, n, oracle.hardware());
            Value y = activated(op, x, oracle.hardware());
            bool determined = holds;
            if (op.up) {
                const Value gated = product(op, row, up, scale * up_scale, op.up_bias, n, oracle.hardware());
                determined = determined && !undetermined(y, gated);
                y = times(y, gated);
            }
            if (op.gate) {
                const Value factor{at(op.gate, gate.row(m) + gate.column(n)), 0};
                determined = determined && !undetermined(y, factor);
                y = times(y, factor);
            }
            if (op.residual) y = plus_residual(op, y, at(op.residual, residual.row(m) + residual.column(n)));
            if (op.out_scale) y = divided(y, scalar(op.out_scale));
            oracle.store(op.out, m * p.out_stride + n, y.value, determined ? y.error : Oracle::kUndetermined);
        }
    }
}

const RegisterReference<Gemm> kReference{reference};

}  // namespace
}  // namespace weft
