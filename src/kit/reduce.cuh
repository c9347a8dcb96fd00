// Reductions over the threads that share a row: lanes of a warp, a block, or the blocks of a cluster.
#pragma once

#include <cmath>
#include <cstring>

#include "kit/ptx/cluster.cuh"
#include "kit/ptx/shuffle.cuh"
#include "kit/target.h"

namespace weft::inline WEFT_TARGET::kit {

struct Sum {
    static __device__ __forceinline__ float identity() { return 0.0f; }
    __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};
// NaN is ignored unless everything is NaN, as fmaxf does.
struct Max {
    static __device__ __forceinline__ float identity() { return -INFINITY; }
    __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// shuffle_xor of any plain struct, word by word.
template <class T>
__device__ __forceinline__ T shuffle_xor_all(T value, int lane_mask) {
    static_assert(sizeof(T) % 4 == 0);
    struct Words {
        float at[sizeof(T) / 4];
    } words;
    memcpy(&words, &value, sizeof(T));
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(T) / 4); ++i)
        words.at[i] = shuffle_xor(words.at[i], lane_mask);
    memcpy(&value, &words, sizeof(T));
    return value;
}

// Over aligned groups of `lanes` lanes of a warp, a power of two. Every lane gets the result, with the same
// bits: a butterfly whose partners add the same two values. The whole warp takes part.
template <class T, class Combine>
__device__ __forceinline__ T warp_reduce(T value, Combine combine, int lanes = 32) {
    if (lanes == 32) {
#pragma unroll
        for (int mask = 16; mask > 0; mask >>= 1) value = combine(value, shuffle_xor_all(value, mask));
    } else {
        for (int mask = lanes >> 1; mask > 0; mask >>= 1)
            value = combine(value, shuffle_xor_all(value, mask));
    }
    return value;
}
__device__ __forceinline__ float warp_sum(float v, int lanes = 32) { return warp_reduce(v, Sum{}, lanes); }
__device__ __forceinline__ float warp_max(float v, int lanes = 32) { return warp_reduce(v, Max{}, lanes); }

inline constexpr int kMaxCluster = 16;

template <class T>
struct ReduceScratch {
    T warps[2][32];
    T blocks[2][kMaxCluster];
};

// The threads that share something to reduce. Blocks are one-dimensional.
struct Group {
    int lanes;        // threads of a block: a power of two up to 32, or the whole block (a multiple of 32)
    int cluster = 1;  // blocks
    int turn = 0;     // which half of the scratch the next reduction uses

    __device__ __forceinline__ int size() const { return lanes * cluster; }
    // The calling thread's number in its group.
    __device__ __forceinline__ int thread() const {
        const int in_block = static_cast<int>(threadIdx.x) & (lanes <= 32 ? lanes - 1 : 1023);
        return cluster == 1 ? in_block : static_cast<int>(cluster_rank()) * lanes + in_block;
    }

    // Call once before the first reduction, after the first loads were issued: no block may write to a peer's
    // shared memory before the peer has started.
    __device__ __forceinline__ void begin() const {
        if (cluster > 1) cluster_sync();
    }

    // Combine is commutative, associative but for rounding, and has identity(). All threads of the block (and
    // the cluster) call it; all get the same bits. Two halves of scratch in turn need one barrier a
    // reduction: a half is written again only after the next reduction's barrier, which nobody reaches before
    // it has read.
    template <class T, class Combine>
    __device__ __forceinline__ T reduce(T value, Combine combine) {
        value = warp_reduce(value, combine, lanes < 32 ? lanes : 32);
        if (lanes <= 32 && cluster == 1) return value;
        ReduceScratch<T>& scratch = block_shared<ReduceScratch<T>>();
        const int lane = static_cast<int>(threadIdx.x) & 31;
        if (lanes > 32) {
            if (lane == 0) scratch.warps[turn][threadIdx.x >> 5] = value;
            __syncthreads();
            value = collect(scratch.warps[turn], lanes >> 5, combine);
        }
        if (cluster > 1) {
            if (threadIdx.x < static_cast<unsigned>(cluster)) {
                cluster_map(&scratch.blocks[turn][0], threadIdx.x)[cluster_rank()] = value;
            }
            cluster_sync();
            value = collect(scratch.blocks[turn], cluster, combine);
        }
        turn ^= 1;
        return value;
    }
    __device__ __forceinline__ float sum(float v) { return reduce(v, Sum{}); }
    __device__ __forceinline__ float max(float v) { return reduce(v, Max{}); }

   private:
    // Every warp combines the same `count` partial results.
    template <class T, class Combine>
    __device__ __forceinline__ static T collect(const T* parts, int count, Combine combine) {
        int width = 1;
        while (width < count) width <<= 1;
        const int lane = static_cast<int>(threadIdx.x) & (width - 1);
        T value = lane < count ? parts[lane] : Combine::identity();
        for (int mask = width >> 1; mask > 0; mask >>= 1)
            value = combine(value, shuffle_xor_all(value, mask));
        return value;
    }
};

}  // namespace weft::inline WEFT_TARGET::kit
