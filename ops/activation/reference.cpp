// activation's executable specification.
#include <cmath>

#include "ops/activation/tolerance.h"
#include "weft/op.h"

namespace weft {
namespace {

// x + add + bias in fp32, each sum rounded to x's dtype where PyTorch would; what fp32 may be off by.
ActivationResult argument(const Activate& op, double x, const double* terms, int count) {
    double error = 0;
    for (int i = 0; i < count; ++i) {
        x += terms[i];
        if (op.rounding == Rounding::eager) x = round_to(op.x.dtype, round_to(DType::fp32, x));
        if (op.rounding == Rounding::fused) error += kEps32 * std::fabs(x);
    }
    return {x, error, 0};
}

void reference(const Activate& op, Oracle& oracle) {
    const Rows x = *fold_rows(op.x), out = *fold_rows(op.out);
    const std::int64_t beside = out.dim - x.dim;
    const double inverse = op.scale ? 1.0f / load_element(DType::fp32, op.scale.data, 0) : 1;
    const bool scaled = is_fp8(op.out.dtype);
    for (std::int64_t row = 0; row < x.rows; ++row) {
        const auto store = [&](std::int64_t column, double value, double error) {
            const double y = value * inverse, e = error * inverse + (scaled ? 3 * kEps32 * std::fabs(y) : 0);
            oracle.store(op.out, row * out.stride + column, y, std::isfinite(y) && std::isfinite(e) ? e : 0);
        };
        for (std::int64_t i = 0; i < beside; ++i)
            store(i, load_element(op.front.dtype, op.front.data, row * fold_rows(op.front)->stride + i), 0);
        for (std::int64_t i = 0; i < x.dim; ++i) {
            double terms[2];
            int count = 0;
            if (op.add)
                terms[count++] = load_element(op.add.dtype, op.add.data, row * fold_rows(op.add)->stride + i);
            if (op.bias) terms[count++] = load_element(op.bias.dtype, op.bias.data, i);
            const ActivationResult before =
                argument(op, load_element(op.x.dtype, op.x.data, row * x.stride + i), terms, count);
            const ActivationResult y = activated(op, before.value);
            double error = y.error + y.slope * before.error;
            // On either side of the threshold the results differ by it.
            if (op.activation == Activate::Activation::hardshrink && before.error > 0 &&
                std::fabs(std::fabs(before.value) - op.alpha) <= before.error)
                error = std::fabs(before.value) + before.error;
            store(beside + i, y.value, error);
        }
    }
}

const RegisterReference<Activate> kReference{reference};

}  // namespace
}  // namespace weft
