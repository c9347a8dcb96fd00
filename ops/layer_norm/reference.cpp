// layer_norm's executable specification.
#include <cmath>
#include <vector>

#include "kit/eager_reference.h"
#include "kit/row_reference.h"
#include "ops/layer_norm/layer_norm.h"
#include "weft/op.h"

namespace weft {
namespace {

struct Moments {
    double mean = 0, scale = 0;  // scale: 1/sqrt(var + eps)
    double mean_error = 0, scale_error = 0;
};

Moments moments(const std::vector<double>& r, double eps, Rounding rounding) {
    const auto dim = static_cast<double>(r.size());
    const double k = rounding == Rounding::fused ? 52 + dim / 512 : 64 + dim / 64;
    double total = 0, magnitude = 0, squares = 0, deviation = 0;
    for (const double v : r) total += v, magnitude += std::fabs(v);
    Moments m;
    m.mean = total / dim;
    m.mean_error = r.size() == 1 ? 0 : k * kEps32 * magnitude / dim;  // one element is its own mean
    for (const double v : r) squares += (v - m.mean) * (v - m.mean), deviation += std::fabs(v - m.mean);
    m.scale = 1 / std::sqrt(squares / dim + eps);
    // Rounded differences err by ε₃₂ each; a wrong mean adds its error's square to the variance.
    const double variance_error =
        m.mean_error * m.mean_error + 2 * kEps32 * (squares + m.mean_error * deviation) / dim;
    m.scale_error = (k + 6) / 2 * kEps32 + m.scale * m.scale * variance_error / 2;
    return m;
}

void reference(const LayerNorm& op, Oracle& oracle) {
    const std::int64_t rows = row_count(op.x);
    const ReferenceInput input(op);
    const bool eager = op.rounding != Rounding::fused;
    std::vector<double> y(static_cast<std::size_t>(op.x.dim(-1))), error(y.size());
    std::vector<Stepped> steps(eager ? y.size() : 0);
    for (std::int64_t row = 0; row < rows; ++row) {
        const std::vector<double> r = input.row(row, oracle);
        const Moments m = moments(r, static_cast<double>(op.eps), op.rounding);
        for (std::size_t i = 0; i < y.size(); ++i) {
            const auto at = static_cast<std::int64_t>(i);
            const double weight = (op.weight ? load_element(op.weight.dtype, op.weight.data, at) : 1) +
                                  static_cast<double>(op.weight_offset);
            const double bias = op.bias ? load_element(op.bias.dtype, op.bias.data, at) : 0;
            const double difference = r[i] - m.mean, n = difference * m.scale * weight;
            const double difference_error = m.mean_error + kEps32 * std::fabs(difference);
            y[i] = n + bias;
            error[i] = difference_error * m.scale * std::fabs(weight) * (1 + m.scale_error) +
                       (m.scale_error + 5 * kEps32) * std::fabs(n) + kEps32 * std::fabs(y[i]);
            if (eager) steps[i] = Stepped::within(y[i], error[i]);
        }
        if (eager) {
            eager_outputs(op, row, steps, oracle);
        } else {
            reference_outputs(op, row, y, error, oracle);
        }
    }
}

const RegisterReference<LayerNorm> kReference{reference};

}  // namespace
}  // namespace weft
