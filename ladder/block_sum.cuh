// The sum of one value a thread over a block: what the rungs of several topics stand on. In two steps, each a tree.
#pragma once

#include "kit/ptx/shuffle.cuh"
#include "ladder/rung.h"

namespace weft::inline WEFT_TARGET {

inline constexpr int kBlock = 256;  // threads of every block that sums; a multiple of 32

// Within a warp lanes read each other's registers: after five exchanges with the lane whose number differs in one bit,
// every lane has the sum of all 32.
template <class T, class Combine>
__device__ __forceinline__ T warp_all(T value, Combine combine) {
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1) value = combine(value, kit::shuffle_xor(value, mask));
    return value;
}

// Between warps through shared memory: each leaves its result, and every warp combines all of them once more. The first
// barrier keeps a second call from writing over what a slower warp still reads.
template <class T, class Combine>
__device__ __forceinline__ T block_all(T value, T identity, Combine combine) {
    struct Warps {
        T at[kBlock / 32];
    };
    Warps& warps = kit::block_shared<Warps>();
    const int lane = static_cast<int>(threadIdx.x) % 32;
    value = warp_all(value, combine);
    __syncthreads();
    if (lane == 0) warps.at[threadIdx.x / 32] = value;
    __syncthreads();
    return warp_all(lane < kBlock / 32 ? warps.at[lane] : identity, combine);
}

struct Plus {
    template <class T>
    __device__ __forceinline__ T operator()(T a, T b) const {
        return a + b;
    }
};
struct Larger {
    __device__ __forceinline__ float operator()(float a, float b) const { return a > b ? a : b; }
};

template <class T>
__device__ __forceinline__ T block_sum(T value) {
    return block_all(value, T{0}, Plus{});
}
__device__ __forceinline__ float block_max(float value) { return block_all(value, -INFINITY, Larger{}); }

}  // namespace weft::inline WEFT_TARGET
