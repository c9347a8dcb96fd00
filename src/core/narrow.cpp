// Scales of groups: their places.
#include "weft/narrow.h"

namespace weft {

std::optional<std::int64_t> leading_stride(const Tensor& tensor, int trailing) {
    Tensor rows = tensor;
    rows.rank = tensor.rank - trailing + 1;  // the last of them stands for what comes after: one element
    if (rows.rank < 1) return std::nullopt;
    rows.shape[rows.rank - 1] = 1;
    const auto folded = fold_rows(rows);
    return folded ? std::optional(folded->stride) : std::nullopt;
}

GroupScales group_scales(const Tensor& linear, const Tensor& swizzled, std::int64_t rows, std::int64_t dim) {
    const Tensor& present = linear ? linear : swizzled;
    if (!present) return {};
    GroupScales scales{.data = present.data, .dtype = present.dtype, .swizzled = !linear, .rows = rows};
    const int columns = group_columns(present.dtype);
    scales.groups = (dim + columns - 1) / columns;
    scales.padded_rows = linear ? rows : present.dim(0);
    scales.padded_groups = linear ? scales.groups : present.dim(1);
    if (linear) {
        scales.row_stride = *leading_stride(linear, 1);
        scales.group_stride = linear.stride[linear.rank - 1];
    }
    return scales;
}

}  // namespace weft
