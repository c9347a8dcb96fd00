// quantize's executable specification.
#include <algorithm>
#include <cmath>

#include "ops/quantize/quantize.h"
#include "weft/op.h"

namespace weft {
namespace {

// Of the numbers of a row: NaN has no magnitude.
double row_amax(const Quantize& op, const Rows& x, std::int64_t row) {
    double amax = 0;
    for (std::int64_t i = 0; i < x.dim; ++i) {
        const double v = std::fabs(load_element(op.x.dtype, op.x.data, row * x.stride + i));
        if (v > amax) amax = v;
    }
    return amax;
}

// Stores amax / max, and gives the fp32 number that the codes are divided by.
double store_scale(const Quantize& op, const Tensor& tensor, std::int64_t at, double amax, Oracle& oracle) {
    const double scale = amax > 0 ? std::max(amax / max_value(op.out.dtype), 0x1p-126) : 1;
    oracle.store(tensor, at, scale, std::isfinite(scale) ? kEps32 * scale : 0);
    return round_to(DType::fp32, scale);
}

void reference(const Quantize& op, Oracle& oracle) {
    const Rows x = *fold_rows(op.x), out = *fold_rows(op.out);
    double scale = op.scale ? load_element(DType::fp32, op.scale.data, 0) : 1;
    if (op.tensor_scale) {
        double amax = 0;
        for (std::int64_t row = 0; row < x.rows; ++row) amax = std::max(amax, row_amax(op, x, row));
        scale = store_scale(op, op.tensor_scale, 0, amax, oracle);
    }
    for (std::int64_t row = 0; row < x.rows; ++row) {
        if (op.token_scale) scale = store_scale(op, op.token_scale, row, row_amax(op, x, row), oracle);
        const double inverse = 1.0f / static_cast<float>(scale);
        for (std::int64_t i = 0; i < x.dim; ++i) {
            const double value = load_element(op.x.dtype, op.x.data, row * x.stride + i) * inverse;
            oracle.store(op.out, row * out.stride + i, value,
                         std::isfinite(value) ? 3 * kEps32 * std::fabs(value) : 0);
        }
    }
}

const RegisterReference<Quantize> kReference{reference};

}  // namespace
}  // namespace weft
