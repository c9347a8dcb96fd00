// A warp a query, its lanes along the head: what the rungs without tiles share.
#pragma once

#include "kit/ptx/shuffle.cuh"
#include "ladder/flash_attention/attend.h"

namespace weft::inline WEFT_TARGET {

inline constexpr int kWarps = 4, kMostHead = 256, kOfLane = kMostHead / 32;

// Every 32nd element of a row, from the lane's number on; zeros behind its end.
__device__ __forceinline__ void load_row(float (&to)[kOfLane], const __half* row, int head_dim) {
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
        const int d = static_cast<int>(threadIdx.x) % 32 + 32 * i;
        to[i] = d < head_dim ? __half2float(row[d]) : 0.0f;
    }
}

// The product with a key, in all lanes.
__device__ __forceinline__ float score(const float (&q)[kOfLane], const __half* key, int head_dim) {
    float k[kOfLane], sum = 0.0f;
    load_row(k, key, head_dim);
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) sum = fmaf(q[i], k[i], sum);
#pragma unroll
    for (int lane = 16; lane > 0; lane /= 2) sum += kit::shuffle_xor(sum, lane);
    return sum;
}

__device__ __forceinline__ void store_row(__half* row, const float (&out)[kOfLane], float sum, int head_dim) {
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
        const int d = static_cast<int>(threadIdx.x) % 32 + 32 * i;
        if (d < head_dim) row[d] = __float2half_rn(sum == 0.0f ? 0.0f : out[i] / sum);
    }
}

// A query's online softmax so far.
struct LaneState {
    float out[kOfLane] = {}, top = minus_infinity(), sum = 0.0f;

    __device__ __forceinline__ void take(const float (&q)[kOfLane], const __half* key, const __half* value,
                                         const Calls& c) {
        const float x = score(q, key, c.head_dim), before = top;
        top = fmaxf(top, x);
        const float shrink = shrink_of(before, top, c.scale), weight = weight_of(x, top, c.scale);
        float values[kOfLane];
        load_row(values, value, c.head_dim);
        sum = sum * shrink + weight;
#pragma unroll
        for (int i = 0; i < kOfLane; ++i) out[i] = fmaf(weight, values[i], out[i] * shrink);
    }
};

}  // namespace weft::inline WEFT_TARGET
