// What the top rungs share: groups of lanes as wide as a row is long, each with several rows at a time.
#pragma once

#include "kit/convert.cuh"
#include "ladder/gemv/vector.h"
#include "ladder/row.cuh"

namespace weft::inline WEFT_TARGET {

inline constexpr int kRowsThreads = 128;

template <class T>
using Sixteen = Pack<T, 16 / static_cast<int>(sizeof(T))>;

__device__ __forceinline__ float add_products(float sum, const Sixteen<float>& a, const Sixteen<float>& b) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sum = fmaf(a.at[i], b.at[i], sum);
    return sum;
}
__device__ __forceinline__ float add_products(float sum, const Sixteen<__half>& a, const Sixteen<__half>& b) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sum = fmaf(__half2float(a.at[i]), __half2float(b.at[i]), sum);
    return sum;
}

// Each group has a row of each of kRows runs of rows, so that neighbouring groups read neighbouring rows. Rows beyond the
// last one are read as the last.
// kRows is one where a row gives each lane many loads: then the next eight of them are under way at a time.
template <class T, int kLanes, int kRows>
__global__ void __launch_bounds__(kRowsThreads, kRows == 1 ? 8 : 4)
    gemv_rows(const T* x, const T* matrix, T* out, std::int64_t rows, std::int64_t k) {
    constexpr int kGroups = kRowsThreads / kLanes, kWidth = 16 / static_cast<int>(sizeof(T));
    const int lane = static_cast<int>(threadIdx.x) % kLanes, group = static_cast<int>(threadIdx.x) / kLanes;
    const std::int64_t first = std::int64_t{blockIdx.x} * kGroups * kRows + group;
    float sums[kRows] = {};
#pragma unroll(kRows == 1 ? 8 : 2)
    for (std::int64_t i = kWidth * lane; i < k; i += kWidth * kLanes) {
        const auto piece = *reinterpret_cast<const Sixteen<T>*>(x + i);
        Sixteen<T> of_row[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r)
            of_row[r] =
                *reinterpret_cast<const Sixteen<T>*>(matrix + min(first + r * kGroups, rows - 1) * k + i);
#pragma unroll
        for (int r = 0; r < kRows; ++r) sums[r] = add_products(sums[r], of_row[r], piece);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int mask = kLanes / 2; mask > 0; mask >>= 1) sums[r] += kit::shuffle_xor(sums[r], mask);
        const std::int64_t row = first + r * kGroups;
        if (lane == r % kLanes && row < rows) out[row] = kit::from_float<T>(sums[r]);
    }
}

template <class T, int kLanes, int kRows>
void launch_rows(const char* name, const Gemm& op, Context& context) {
    launch_gemv<T>(name, gemv_rows<T, kLanes, kRows>, kLanes, op, context, kRows);
}

// Eight rows of at most a warp's load; else one, whose loads are many.
template <class T>
void launch_by_length(const char* name, const Gemm& op, Context& context) {
    constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
    const std::int64_t pieces = op.b.dim(1) / kWidth;
    const auto launch = pieces > 32  ? launch_rows<T, 32, 1>
                        : pieces > 8 ? launch_rows<T, 32, 4>
                        : pieces > 4 ? launch_rows<T, 8, 4>
                        : pieces > 2 ? launch_rows<T, 4, 4>
                                     : launch_rows<T, 2, 4>;
    launch(name, op, context);
}

}  // namespace weft::inline WEFT_TARGET
