// The sums of a warp in stores of 16 bytes: the four lanes that have a row's pairs deal them out anew.
#pragma once

#include "kit/ptx/shuffle.cuh"
#include "ladder/hgemm/staged.cuh"

namespace weft::inline WEFT_TARGET {

// Lane t of four has pair t of each of four pieces of eight columns, and gets all four pairs of piece t. In step i each
// gives the pair of the piece that the lane i further has to have, and takes from the one i before.
__device__ __forceinline__ void deal_out(std::uint32_t (&pairs)[4]) {
    const int t = lane_of_warp() % 4, first = lane_of_warp() - t;
    std::uint32_t dealt[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        std::uint32_t given = 0;
#pragma unroll
        for (int j = 0; j < 4; ++j) given = j == (t + i) % 4 ? pairs[j] : given;  // registers have no index
        const std::uint32_t taken = kit::shuffle(given, first + (t + 4 - i) % 4);
#pragma unroll
        for (int j = 0; j < 4; ++j) dealt[j] = j == (t + 4 - i) % 4 ? taken : dealt[j];
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) pairs[j] = dealt[j];
}

__device__ __forceinline__ void store_rows(const float (&sums)[4][4][4], __half* c, const Sizes& s, Corner at,
                                           Warp warp) {
    const int lane = lane_of_warp();
    const std::int64_t column = at.column + warp.column + lane % 4 * 8;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const std::int64_t row = at.row + warp.row + 8 * i + lane / 4;
        union {
            std::uint32_t pairs[4];
            __half2 halves[4];
            uint4 all;
        } piece;
#pragma unroll
        for (int j = 0; j < 4; ++j)
            piece.halves[j] = __floats2half2_rn(sums[i / 2][j][i % 2 * 2], sums[i / 2][j][i % 2 * 2 + 1]);
        deal_out(piece.pairs);
        if (row >= s.m) continue;
        __half* to = c + row * s.n + column;
        if (s.whole && column < s.n) *reinterpret_cast<uint4*>(to) = piece.all;
        for (int j = 0; j < 8 && !s.whole; ++j) {
            if (column + j < s.n) to[j] = j % 2 == 0 ? piece.halves[j / 2].x : piece.halves[j / 2].y;
        }
    }
}

}  // namespace weft::inline WEFT_TARGET
