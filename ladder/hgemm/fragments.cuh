// What the rungs on tensor cores share: fragments of mma.sync m16n8k16 from slices in shared memory, and the store of
// its sums. (kit/ptx/mma.cuh says which lane holds what.)
#pragma once

#include "kit/ptx/ldmatrix.cuh"
#include "kit/ptx/mma.cuh"
#include "ladder/sgemm/product.h"

namespace weft::inline WEFT_TARGET {

inline constexpr int kSlice = 16;  // along k: one mma

// Slices of A, [rows][k], and of B, [k][columns]. A row is kPadA (or kPadB) elements longer than what it holds, which
// moves the next one to other banks and keeps it at a multiple of 16 bytes, as ldmatrix needs.
template <int kRows, int kColumns, int kPadA, int kPadB>
struct HalfSlices {
    static constexpr int kHeight = kRows, kWidth = kColumns;
    alignas(16) __half a[kRows][kSlice + kPadA];
    alignas(16) __half b[kSlice][kColumns + kPadB];
};

// All threads of the block bring a slice of each operand, element by element, zeros beyond the edges.
template <int kThreads, class Slices>
__device__ __forceinline__ void bring(Slices& slices, const __half* a, const __half* b, const Sizes& s,
                                      std::int64_t row, std::int64_t column, std::int64_t k) {
    const __half zero = __float2half_rn(0.0f);
    for (int i = threadIdx.x; i < Slices::kHeight * kSlice; i += kThreads) {
        const int r = i / kSlice, c = i % kSlice;
        slices.a[r][c] = row + r < s.m && k + c < s.k ? a[(row + r) * s.k + k + c] : zero;
    }
    for (int i = threadIdx.x; i < kSlice * Slices::kWidth; i += kThreads) {
        const int r = i / Slices::kWidth, c = i % Slices::kWidth;
        slices.b[r][c] = k + r < s.k && column + c < s.n ? b[(k + r) * s.n + column + c] : zero;
    }
}

// The fragment of A of 16 rows from `row` on: lanes 0-15 name the rows of its left half, the others of its right half.
template <class Slices>
__device__ __forceinline__ void load_a(std::uint32_t (&fragment)[4], const Slices& slices, int row) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    kit::ldmatrix_x4(fragment, &slices.a[row + lane % 16][lane / 16 * 8]);
}
// The fragment of B of 8 columns from `column` on: B lies row major, mma wants columns, and ldmatrix transposes.
template <class Slices>
__device__ __forceinline__ void load_b(std::uint32_t (&fragment)[2], const Slices& slices, int column) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    kit::ldmatrix_x2_trans(fragment, &slices.b[lane % 16][column]);
}

// The sums of one mma whose first output is (row, column).
__device__ __forceinline__ void store_sums(const float (&sums)[4], __half* c, const Sizes& s,
                                           std::int64_t row, std::int64_t column) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const std::int64_t r = row + lane / 4 + i / 2 * 8, k = column + lane % 4 * 2 + i % 2;
        if (r < s.m && k < s.n) c[r * s.n + k] = __float2half_rn(sums[i]);
    }
}

}  // namespace weft::inline WEFT_TARGET
