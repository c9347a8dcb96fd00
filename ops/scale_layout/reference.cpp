// scale_layout's executable specification.
#include "ops/scale_layout/scale_layout.h"
#include "weft/op.h"

namespace weft {
namespace {

void reference(const ScaleLayout& op, Oracle& oracle) {
    const Tensor &rows = op.linear ? op.linear : op.to_linear,
                 &tiles = op.linear ? op.to_swizzled : op.swizzled;
    const std::int64_t groups = rows.dim(-1), count = rows.numel() / (groups > 0 ? groups : 1);
    const std::int64_t row_stride = *leading_stride(rows, 1), group_stride = rows.stride[rows.rank - 1];
    for (std::int64_t r = 0; r < tiles.dim(0); ++r) {
        for (std::int64_t g = 0; g < tiles.dim(1); ++g) {
            const std::int64_t at =
                (r / 128 * (tiles.dim(1) / 4) + g / 4) * 512 + r % 32 * 16 + r % 128 / 32 * 4 + g % 4;
            const bool there = r < count && g < groups;
            const std::int64_t linear = r * row_stride + g * group_stride;
            if (op.linear) {
                if (!there) oracle.store_exact(tiles, at, 0);
                if (there) oracle.store(tiles, at, load_element(rows.dtype, rows.data, linear));
            } else if (there) {
                oracle.store(rows, linear, load_element(tiles.dtype, tiles.data, at));
            }
        }
    }
}

const RegisterReference<ScaleLayout> kReference{reference};

}  // namespace
}  // namespace weft
