// Tiles of halves in shared memory: how they are filled, where a chunk of 16 bytes lies, and the fragments of mma.sync
// that ldmatrix reads from them.
#pragma once

#include "kit/ptx/cp_async.cuh"
#include "kit/ptx/ldmatrix.cuh"
#include "kit/ptx/mma.cuh"
#include "ladder/rung.h"

namespace weft::inline WEFT_TARGET {

// What keeps the eight chunks that ldmatrix reads at once in different banks: nothing, 16 bytes behind each row, or an
// exchange of chunks.
enum class Banks { plain, padded, swizzled };

template <int kHeight, int kWidth, Banks kBanks>
struct HalfTile {
    static constexpr int kRows = kHeight, kChunks = kWidth / 8;
    static constexpr int kPitch = kWidth + (kBanks == Banks::padded ? 8 : 0);
    alignas(16) __half at[kRows * kPitch];

    // Swizzled, the number of a chunk is exchanged by exclusive or with the number of its 128 bytes: eight rows that are
    // read at the same chunk then lie in eight different places of 128 bytes. No byte more is used.
    __device__ __forceinline__ __half* chunk(int row, int c) {
        if constexpr (kBanks == Banks::swizzled) {
            static_assert((kChunks & (kChunks - 1)) == 0);
            c ^= kChunks < 8 ? row * kChunks / 8 % kChunks : row % 8;
        }
        return at + row * kPitch + c * 8;
    }
};

// Eight halves, of which `left` exist and the others are zeros: one copy of 16 bytes, under way until its group is
// waited for, where the rows of the matrix allow it (`whole`), else one by one.
__device__ __forceinline__ void copy_chunk(__half* to, const __half* from, std::int64_t left, bool whole) {
    if (whole) return kit::cp_async_16(to, from, left > 0);
    for (int i = 0; i < 8; ++i) to[i] = i < left ? from[i] : __float2half_rn(0.0f);
}

// All threads of a block bring a tile of a matrix of `rows` by `columns` whose rows are `stride` apart, from (row,
// column) on; zeros beyond its edges.
template <int kThreads, class Tile>
__device__ __forceinline__ void bring_tile(Tile& tile, const __half* matrix, std::int64_t rows,
                                           std::int64_t columns, std::int64_t stride, std::int64_t row,
                                           std::int64_t column, bool whole) {
    for (int i = threadIdx.x; i < Tile::kRows * Tile::kChunks; i += kThreads) {
        const int r = i / Tile::kChunks, c = i % Tile::kChunks;
        const std::int64_t first = column + 8 * c, left = row + r < rows ? columns - first : 0;
        // Where there is nothing to copy the address is not used, but must be one.
        copy_chunk(tile.chunk(r, c), left > 0 ? matrix + (row + r) * stride + first : matrix, left, whole);
    }
}

__device__ __forceinline__ int lane_of_warp() { return static_cast<int>(threadIdx.x) % 32; }

// Of A, [rows][k]: 16 rows by 16 k. Lanes 0 to 15 name the rows of its left half, the others those of its right half.
template <class Tile>
__device__ __forceinline__ void fragment_a(std::uint32_t (&to)[4], Tile& tile, int row, int k) {
    kit::ldmatrix_x4(to, tile.chunk(row + lane_of_warp() % 16, k / 8 + lane_of_warp() / 16));
}
// Of B as [columns][k]: 8 columns by 16 k, which lie as mma wants them.
template <class Tile>
__device__ __forceinline__ void fragment_b(std::uint32_t (&to)[2], Tile& tile, int column, int k) {
    kit::ldmatrix_x2(to, tile.chunk(column + lane_of_warp() % 8, k / 8 + lane_of_warp() / 8 % 2));
}
// Of B as [k][columns]: ldmatrix transposes.
template <class Tile>
__device__ __forceinline__ void fragment_b_transposed(std::uint32_t (&to)[2], Tile& tile, int k, int column) {
    kit::ldmatrix_x2_trans(to, tile.chunk(k + lane_of_warp() % 16, column / 8));
}

}  // namespace weft::inline WEFT_TARGET
