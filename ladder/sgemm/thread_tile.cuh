// A tile of outputs whose threads have 8 by 8 of them each: what the rungs from 03 on share. 64 threads, 64 by 64
// outputs, slices of 8 along k.
#pragma once

#include "kit/convert.cuh"
#include "ladder/sgemm/product.h"

namespace weft::inline WEFT_TARGET {

inline constexpr int kTile = 64, kSlice = 8, kEach = 8, kThreads = 64;

// Of A transposed: a thread then reads its eight rows of one k as neighbours, as it does B's eight columns. kSkew
// elements behind each row move the next one to other banks.
template <int kSkew>
struct Slices {
    float a[kSlice][kTile + kSkew], b[kSlice][kTile + kSkew];
};

// What a thread brings of one slice, eight elements of each operand, on its way through registers.
struct Fetched {
    float a[kSlice], b[kSlice];
};

struct Origin {
    std::int64_t row, column;
};

// Zeros beyond the edges. Of A neighbouring threads have neighbours along k, eight to a row; of B along n.
__device__ __forceinline__ void fetch(Fetched& f, const float* a, const float* b, const Sizes& s, Origin o,
                                      std::int64_t k) {
    const int t = threadIdx.x;
#pragma unroll
    for (int i = 0; i < kSlice; ++i) {
        const std::int64_t row = o.row + i * 8 + t / 8, ka = k + t % 8, kb = k + i, column = o.column + t;
        f.a[i] = row < s.m && ka < s.k ? a[row * s.k + ka] : 0.0f;
        f.b[i] = kb < s.k && column < s.n ? b[kb * s.n + column] : 0.0f;
    }
}
template <int kSkew>
__device__ __forceinline__ void keep(Slices<kSkew>& slices, const Fetched& f) {
    const int t = threadIdx.x;
#pragma unroll
    for (int i = 0; i < kSlice; ++i) {
        slices.a[t % 8][i * 8 + t / 8] = f.a[i];
        slices.b[i][t] = f.b[i];
    }
}

// The first of a thread's eight rows (or columns) and the step to the next.
struct Share {
    int first, step;
};

// 64 fused multiply-adds for 16 loads from shared memory.
template <int kSkew>
__device__ __forceinline__ void multiply(float (&sums)[kEach][kEach], const Slices<kSkew>& slices, Share rows,
                                         Share columns) {
#pragma unroll
    for (int k = 0; k < kSlice; ++k) {
        float a[kEach], b[kEach];
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            a[i] = slices.a[k][rows.first + i * rows.step];
            b[i] = slices.b[k][columns.first + i * columns.step];
        }
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
#pragma unroll
            for (int j = 0; j < kEach; ++j) sums[i][j] = fmaf(a[i], b[j], sums[i][j]);
        }
    }
}

template <class Out>
__device__ __forceinline__ void store(const float (&sums)[kEach][kEach], Out* c, const Sizes& s, Origin o,
                                      Share rows, Share columns) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
            const std::int64_t row = o.row + rows.first + i * rows.step;
            const std::int64_t column = o.column + columns.first + j * columns.step;
            if (row < s.m && column < s.n) c[row * s.n + column] = kit::from_float<Out>(sums[i][j]);
        }
    }
}

__device__ __forceinline__ Origin origin_of(const Sizes& s) {
    return {blockIdx.x / s.across * kTile, blockIdx.x % s.across * kTile};
}

}  // namespace weft::inline WEFT_TARGET
