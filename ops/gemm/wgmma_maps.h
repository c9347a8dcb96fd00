// gemm on wgmma: what the copy engine knows of its operands.
#pragma once

#include <algorithm>

#include "kit/tensor_map.h"
#include "ops/gemm/wgmma.h"

namespace weft::inline WEFT_TARGET {
namespace {

// Rows of `length` elements, in boxes of `width` bytes by `box` rows. A lone row is never stepped over, whatever its
// stride.
inline kit::TensorLayout rows_layout(const Tensor& t, std::int64_t rows, std::int64_t length,
                                     std::int64_t stride, int width, int box) {
    kit::TensorLayout layout{.data = t.data,
                             .element_bytes = bits(t.dtype) / 8,
                             .axes = 2,
                             .swizzle = static_cast<kit::Swizzle>(width)};
    layout.size[0] = static_cast<std::uint64_t>(length);
    layout.size[1] = static_cast<std::uint64_t>(rows);
    layout.stride[0] = static_cast<std::uint64_t>(layout.element_bytes);
    layout.stride[1] = static_cast<std::uint64_t>(rows > 1 ? bytes(t.dtype, stride)
                                                           : gemm::ceil_div(bytes(t.dtype, length), 16) * 16);
    layout.box[0] = static_cast<std::uint32_t>(width / layout.element_bytes);
    layout.box[1] = static_cast<std::uint32_t>(box);
    return layout;
}

// Up to eight rows, from the first of `rows` on, of the matrix that lies first, and as many of the other.
inline kit::TensorLayout both_layout(const Gemm& op, const gemm::Problem& p, std::int64_t rows) {
    const auto b = reinterpret_cast<std::uintptr_t>(op.b.data),
               up = reinterpret_cast<std::uintptr_t>(op.up.data);
    kit::TensorLayout layout =
        rows_layout(up < b ? op.up : op.b, rows, p.k, p.b.row, gemm::WgmmaTile::kRowBytes, 8);
    layout.axes = 3;
    layout.size[2] = 2;
    layout.stride[2] = up < b ? b - up : up - b;
    layout.box[2] = 2;
    return layout;
}
// Eight rows of the matrix that lies first, eight of the other, and so on: as many groups as are whole.
inline kit::TensorLayout gated_layout(const Gemm& op, const gemm::Problem& p, int box) {
    kit::TensorLayout layout = both_layout(op, p, std::min<std::int64_t>(p.n, 8));
    layout.axes = 4;
    layout.size[3] = static_cast<std::uint64_t>(std::max<std::int64_t>(p.n / 8, 1));
    layout.stride[3] = 8 * layout.stride[1];
    layout.box[3] = static_cast<std::uint32_t>(box / 16);
    return layout;
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
