// What the rungs on CUDA cores with 8 by 8 outputs a thread share: how halves come into the slices of
// sgemm/thread_tile.cuh.
#pragma once

#include "ladder/row.cuh"
#include "ladder/sgemm/thread_tile.cuh"

namespace weft::inline WEFT_TARGET {

using EightHalves = Pack<__half, 8>;

// Of `left` elements from `from` on the first eight, zeros behind them: one load where rows are whole vectors.
__device__ __forceinline__ EightHalves eight_of(const __half* from, std::int64_t left, bool whole) {
    EightHalves pack;
    if (whole && left > 0) return *reinterpret_cast<const EightHalves*>(from);
#pragma unroll
    for (int i = 0; i < 8; ++i) pack.at[i] = i < left ? from[i] : __float2half_rn(0.0f);
    return pack;
}

// A thread's share of a slice: eight along k of one row of A, eight along n of one row of B.
struct FetchedHalves {
    EightHalves a, b;
};
__device__ __forceinline__ FetchedHalves fetch(const __half* a, const __half* b, const Sizes& s, Origin o,
                                               std::int64_t k) {
    const int t = threadIdx.x;
    const std::int64_t row = o.row + t, kb = k + t / 8, column = o.column + t % 8 * 8;
    return {eight_of(a + row * s.k + k, row < s.m ? s.k - k : 0, s.whole),
            eight_of(b + kb * s.n + column, kb < s.k ? s.n - column : 0, s.whole)};
}
template <int kSkew>
__device__ __forceinline__ void keep(Slices<kSkew>& slices, const FetchedHalves& f) {
    const int t = threadIdx.x;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        slices.a[i][t] = __half2float(f.a.at[i]);
        slices.b[t / 8][t % 8 * 8 + i] = __half2float(f.b.at[i]);
    }
}

}  // namespace weft::inline WEFT_TARGET
