// residual_add's kernel: kit::affine_rows, whose shift is the residual.
#pragma once

#include "kit/affine.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// What     out = (x + bias) · gate + residual
// Mapping, traffic and needs: kit::affine_rows
template <class T>
__global__ void __launch_bounds__(256, kit::affine_blocks<T>())
    residual_add(const __grid_constant__ kit::AffineOf<T> p, kit::RowTiles tiles) {
    kit::affine_rows<T>(p, tiles);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
