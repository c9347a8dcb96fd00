// modulate's kernel: kit::affine_rows without a bias.
#pragma once

#include "kit/affine.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// What     out = x · (offset + scale) + shift
// Mapping, traffic and needs: kit::affine_rows
template <class T>
__global__ void __launch_bounds__(256, kit::affine_blocks<T>())
    modulate(const __grid_constant__ kit::AffineOf<T> p, kit::RowTiles tiles) {
    kit::affine_rows<T>(p, tiles);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
