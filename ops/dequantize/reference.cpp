// dequantize's executable specification.
#include <cmath>

#include "ops/dequantize/dequantize.h"
#include "weft/op.h"

namespace weft {
namespace {

void reference(const Dequantize& op, Oracle& oracle) {
    const Rows x = *fold_rows(op.x), out = *fold_rows(op.out);
    const GroupScales groups = group_scales(op.group_scale, op.swizzled_scale, x.rows, x.dim);
    const double tensor = op.scale ? load_element(DType::fp32, op.scale.data, 0) : 1;
    for (std::int64_t row = 0; row < x.rows; ++row) {
        for (std::int64_t i = 0; i < x.dim; ++i) {
            double scale = tensor;
            if (op.token_scale) scale = load_element(DType::fp32, op.token_scale.data, row);
            if (groups.data != nullptr) {
                const double group =
                    load_element(groups.dtype, groups.data, groups.at(row, i / group_columns(groups.dtype)));
                scale = static_cast<float>(group) * static_cast<float>(tensor);
            }
            if (const Tensor& blocks = op.block_scale) {
                const std::int64_t at = row / 128 * blocks.stride[0] + i / 128 * blocks.stride[1];
                scale = load_element(DType::fp32, blocks.data, at);
            }
            const double value = load_element(op.x.dtype, op.x.data, row * x.stride + i) * scale;
            oracle.store(op.out, row * out.stride + i, value,
                         std::isfinite(value) ? kEps32 * std::fabs(value) : 0);
        }
    }
}

const RegisterReference<Dequantize> kReference{reference};

}  // namespace
}  // namespace weft
