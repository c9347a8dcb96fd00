// rms_norm's executable specification.
#include <cmath>
#include <vector>

#include "kit/eager_reference.h"
#include "kit/row_reference.h"
#include "ops/rms_norm/rms_norm.h"
#include "weft/op.h"

namespace weft {
namespace {

void reference(const RmsNorm& op, Oracle& oracle) {
    const std::int64_t rows = row_count(op.x);
    const ReferenceInput input(op);
    const auto dim = static_cast<double>(op.x.dim(-1));
    const bool eager = op.rounding != Rounding::fused, cast = op.rounding == Rounding::eager_cast;
    const double k = eager ? 48 : 32 + dim / 1024;
    std::vector<double> y(static_cast<std::size_t>(op.x.dim(-1))), error(y.size());
    std::vector<Stepped> steps(eager ? y.size() : 0);
    for (std::int64_t row = 0; row < rows; ++row) {
        const std::vector<double> r = input.row(row, oracle);
        double squares = 0;
        for (const double v : r) squares += v * v;
        const double scale = 1 / std::sqrt(squares / dim + static_cast<double>(op.eps));
        for (std::size_t i = 0; i < y.size(); ++i) {
            const auto at = static_cast<std::int64_t>(i);
            const double weight = op.weight ? load_element(op.weight.dtype, op.weight.data, at) : 1;
            const double bias = op.bias ? load_element(op.bias.dtype, op.bias.data, at) : 0;
            const double n = r[i] * scale * (weight + static_cast<double>(op.weight_offset));
            y[i] = n + bias;
            error[i] = kEps32 * (k * std::fabs(n) + std::fabs(y[i]));
            if (eager) steps[i] = Stepped::within(y[i], error[i]);
            if (!cast) continue;
            const double plain = r[i] * scale;
            steps[i] =
                Stepped::within(plain, kEps32 * k * std::fabs(plain)).to(op.x.dtype) * Stepped::exact(weight);
            if (op.bias) steps[i] = steps[i].to(op.x.dtype) + Stepped::exact(bias);
        }
        if (eager) {
            eager_outputs(op, row, steps, oracle);
        } else {
            reference_outputs(op, row, y, error, oracle);
        }
    }
}

const RegisterReference<RmsNorm> kReference{reference};

}  // namespace
}  // namespace weft
