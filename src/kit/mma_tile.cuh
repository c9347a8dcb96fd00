// Tiles in shared memory as the tensor cores want them: rows of 128 bytes, swizzled, and fragments read from
// them.
//
// A panel is any number of rows of 128 bytes, eight 16-byte chunks each. Chunk c of row r lies at place c ^
// (r mod 8): the eight rows that one ldmatrix phase reads, and the eight chunks that a row is written with,
// then fall into eight different groups of banks. A matrix wider than 128 bytes is several panels side by
// side.
//
// Fragments are those of mma.m16n8k16 on 16-bit elements and mma.m16n8k32 on 8-bit ones, which are the same
// in bytes: a step of k is 32 bytes, two chunks.
#pragma once

#include "kit/ptx/ldmatrix.cuh"
#include "kit/target.h"

namespace weft::inline WEFT_TARGET::kit {

inline constexpr int kPanelBytes = 128;  // of a row
inline constexpr int kPanelChunks = kPanelBytes / 16;

// Byte offset of a chunk in its panel.
__device__ __forceinline__ int panel_offset(int row, int chunk) {
    return row * kPanelBytes + ((chunk ^ (row & 7)) << 4);
}

__device__ __forceinline__ int lane_index() { return static_cast<int>(threadIdx.x) & 31; }

// A operand, 16 rows by 32 bytes from (row, chunk): lane t holds rows t/4 and t/4 + 8.
__device__ __forceinline__ void load_a_fragment(uint32_t (&a)[4], const char* panel, int row, int chunk) {
    const int lane = lane_index();
    ldmatrix_x4(a, panel + panel_offset(row + (lane & 15), chunk + (lane >> 4)));
}

// B operands of two neighbouring mma, 16 columns by 32 bytes, from a panel whose rows are the columns of B (k
// runs along the row): b0 for columns `row` to row + 7, b1 for the next eight.
__device__ __forceinline__ void load_b_fragments(uint32_t (&b0)[2], uint32_t (&b1)[2], const char* panel,
                                                 int row, int chunk) {
    const int lane = lane_index();
    uint32_t r[4];
    ldmatrix_x4(r, panel + panel_offset(row + (lane & 7) + ((lane >> 4) << 3), chunk + ((lane >> 3) & 1)));
    b0[0] = r[0], b0[1] = r[1], b1[0] = r[2], b1[1] = r[3];
}

// The same from a panel whose rows are k and along whose row the columns of B run; 16-bit elements only.
// `row` is the first of 16 values of k, `chunk` the first of two groups of eight columns.
__device__ __forceinline__ void load_b_fragments_transposed(uint32_t (&b0)[2], uint32_t (&b1)[2],
                                                            const char* panel, int row, int chunk) {
    const int lane = lane_index();
    uint32_t r[4];
    ldmatrix_x4_trans(r, panel + panel_offset(row + (lane & 15), chunk + (lane >> 4)));
    b0[0] = r[0], b0[1] = r[1], b1[0] = r[2], b1[1] = r[3];
}

// Where accumulator c[i] of a 16 by 8 product lies.
__device__ __forceinline__ int accumulator_row(int i) { return (lane_index() >> 2) + (i >> 1) * 8; }
__device__ __forceinline__ int accumulator_column(int i) { return (lane_index() & 3) * 2 + (i & 1); }

}  // namespace weft::inline WEFT_TARGET::kit
