// dequantize's executable specification.
#include <cmath>

#include "ops/dequantize/dequantize.h"
#include "weft/op.h"

namespace weft {
namespace {

void reference(const Dequantize& op, Oracle& oracle) {
    const Rows x = *fold_rows(op.x), out = *fold_rows(op.out);
    for (std::int64_t row = 0; row < x.rows; ++row) {
        double scale = op.scale ? load_element(DType::fp32, op.scale.data, 0) : 1;
        if (op.token_scale) scale = load_element(DType::fp32, op.token_scale.data, row);
        for (std::int64_t i = 0; i < x.dim; ++i) {
            const double value = load_element(op.x.dtype, op.x.data, row * x.stride + i) * scale;
            oracle.store(op.out, row * out.stride + i, value,
                         std::isfinite(value) ? kEps32 * std::fabs(value) : 0);
        }
    }
}

const RegisterReference<Dequantize> kReference{reference};

}  // namespace
}  // namespace weft
