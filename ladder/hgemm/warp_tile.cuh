// A warp's share of a tile: 32 by 32 outputs, from fragments that are used several times. Four warps, two by two, have
// 64 by 64.
#pragma once

#include "ladder/hgemm/fragments.cuh"

namespace weft::inline WEFT_TARGET {

inline constexpr int kRows = 2, kColumns = 4;  // mma tiles of a warp
inline constexpr int kBlockTile = 64, kBlockThreads = 128;

struct WarpPlace {
    int row, column;  // in the block's tile
};
__device__ __forceinline__ WarpPlace warp_place() {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    return {warp / 2 * 32, warp % 2 * 32};
}

// Eight mma for six loads of fragments.
template <class Slices>
__device__ __forceinline__ void multiply(float (&sums)[kRows][kColumns][4], const Slices& slices,
                                         WarpPlace at) {
    std::uint32_t a[kRows][4], b[kColumns][2];
#pragma unroll
    for (int i = 0; i < kRows; ++i) load_a(a[i], slices, at.row + 16 * i);
#pragma unroll
    for (int j = 0; j < kColumns; ++j) load_b(b[j], slices, at.column + 8 * j);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) kit::mma_m16n8k16<__half>(sums[i][j], a[i], b[j]);
    }
}

__device__ __forceinline__ void store_tile(const float (&sums)[kRows][kColumns][4], __half* c, const Sizes& s,
                                           std::int64_t row, std::int64_t column, WarpPlace at) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j)
            store_sums(sums[i][j], c, s, row + at.row + 16 * i, column + at.column + 8 * j);
    }
}

// The product by slices that the block brings one after the other.
template <int kPad>
__global__ void gemm_by_slices(const __half* a, const __half* b, __half* c, Sizes s) {
    using Slices = HalfSlices<kBlockTile, kBlockTile, kPad, kPad>;
    Slices& slices = kit::block_shared<Slices>();
    const std::int64_t row = blockIdx.x / s.across * kBlockTile, column = blockIdx.x % s.across * kBlockTile;
    const WarpPlace at = warp_place();
    float sums[kRows][kColumns][4] = {};
    for (std::int64_t k = 0; k < s.k; k += kSlice) {
        bring<kBlockThreads>(slices, a, b, s, row, column, k);
        __syncthreads();
        multiply(sums, slices, at);
        __syncthreads();
    }
    store_tile(sums, c, s, row, column, at);
}

}  // namespace weft::inline WEFT_TARGET
