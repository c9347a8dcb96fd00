// Reductions over the threads that share a row: lanes of a warp, a block, or the blocks of a cluster.
#pragma once

#include <cmath>
#include <cstring>

#include "kit/group_scope.h"
#include "kit/ptx/cluster.cuh"
#include "kit/ptx/shuffle.cuh"
#include "kit/ptx/store_async.cuh"
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

// Of magnitudes, by their bits, of which NaN's are the largest: NaN stays.
struct MaxOrNan {
    static __device__ __forceinline__ float identity() { return 0.0f; }
    __device__ __forceinline__ float operator()(float a, float b) const {
        return __float_as_uint(a) > __float_as_uint(b) ? a : b;
    }
};
// One of the two.
struct AmaxOrNan {
    bool keeps_nan;
    static __device__ __forceinline__ float identity() { return 0.0f; }
    __device__ __forceinline__ float operator()(float a, float b) const {
        return keeps_nan ? MaxOrNan{}(a, b) : fmaxf(a, b);
    }
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
// bits: a butterfly whose partners add the same two values. The whole warp takes part, and is the group where `lanes`
// is not given.
template <class T, class Combine>
__device__ __forceinline__ T warp_reduce(T value, Combine combine) {
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1) value = combine(value, shuffle_xor_all(value, mask));
    return value;
}
template <class T, class Combine>
__device__ __forceinline__ T warp_reduce(T value, Combine combine, int lanes) {
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1) {
        if (mask < lanes) value = combine(value, shuffle_xor_all(value, mask));
    }
    return value;
}

inline constexpr int kMaxCluster = 16;

// Two halves each, which reductions use in turn.
template <class T>
struct WarpParts {
    T at[2][32];
};
struct BlockParts {
    float4 at[2][kMaxCluster];  // of a block each: at most 16 bytes
    Mbarrier landed[2];
};

// The threads that share something to reduce. Blocks are one-dimensional.
template <GroupScope kScope = GroupScope::any>
struct Group {
    int lanes;        // threads of a block: a power of two up to 32, or the whole block (a multiple of 32)
    int cluster = 1;  // blocks
    unsigned reduction = 0;  // how many there were

    __device__ __forceinline__ bool clustered() const {
        return kScope == GroupScope::any ? cluster > 1 : kScope == GroupScope::cluster;
    }
    // Several groups of a block, side by side in its warps.
    __device__ __forceinline__ bool in_warp() const {
        if constexpr (kScope == GroupScope::local) return lanes <= 32;
        return kScope == GroupScope::any ? lanes <= 32 && cluster == 1 : kScope == GroupScope::warp;
    }
    __device__ __forceinline__ int size() const { return clustered() ? lanes * cluster : lanes; }
    // The calling thread's number in its group.
    __device__ __forceinline__ int thread() const {
        const int in_block = static_cast<int>(threadIdx.x) & (in_warp() ? lanes - 1 : 1023);
        return clustered() ? static_cast<int>(cluster_rank()) * lanes + in_block : in_block;
    }

    // Call once before the first reduction, after the first loads were issued: no block may write to a peer's
    // shared memory before the peer has started.
    __device__ __forceinline__ void begin() const {
        if (!clustered()) return;
        if (threadIdx.x == 0) {
            BlockParts& blocks = block_shared<BlockParts>();
            mbarrier_init(&blocks.landed[0], 1);
            mbarrier_init(&blocks.landed[1], 1);
            fence_mbarrier_init();
        }
        cluster_arrive();
        cluster_wait();
    }

    // Combine is commutative, associative but for rounding, and has identity(). All threads of the block (and
    // the cluster) call it; all get the same bits. Two halves of scratch in turn need one barrier a
    // reduction: a half is written again only after the next reduction's barrier, which nobody reaches before
    // it has read.
    template <class T, class Combine>
    __device__ __forceinline__ T reduce(T value, Combine combine) {
        if (in_warp()) return warp_reduce(value, combine, lanes);
        value = warp_reduce(value, combine);
        T(&warps)[32] = block_shared<WarpParts<T>>().at[reduction & 1];
        const int lane = static_cast<int>(threadIdx.x) & 31;
        if (lane == 0) warps[threadIdx.x >> 5] = value;
        __syncthreads();
        value = collect<T>(lanes >> 5, combine, [&](int i) { return warps[i]; });
        if (clustered()) value = exchange(value, combine);
        ++reduction;
        return value;
    }
    __device__ __forceinline__ float sum(float v) { return reduce(v, Sum{}); }
    __device__ __forceinline__ float max(float v) { return reduce(v, Max{}); }

   private:
    // Every warp combines the same `count` partial results.
    template <class T, class Combine, class Part>
    __device__ __forceinline__ static T collect(int count, Combine combine, Part part) {
        const int width = count > 1 ? 1 << (32 - __clz(count - 1)) : 1;  // the power of two from count on
        const int lane = static_cast<int>(threadIdx.x) & (width - 1);
        return warp_reduce(lane < count ? part(lane) : Combine::identity(), combine, width);
    }

    // Each block stores its result in all, which wait for nothing but these bytes: a barrier of the cluster would also
    // wait for what was stored to global memory before. No block ends before all that is stored to it has landed.
    template <class T, class Combine>
    __device__ __forceinline__ T exchange(T value, Combine combine) const {
        static_assert(sizeof(T) <= sizeof(float4));
        BlockParts& blocks = block_shared<BlockParts>();
        float4* parts = blocks.at[reduction & 1];
        Mbarrier* landed = &blocks.landed[reduction & 1];
        if (threadIdx.x == 0) mbarrier_arrive_expect(landed, static_cast<unsigned>(cluster) * sizeof(float4));
        if (threadIdx.x < static_cast<unsigned>(cluster)) {
            float4 padded{};
            memcpy(&padded, &value, sizeof(T));
            store_async(&parts[cluster_rank()], padded, landed, threadIdx.x);
        }
        mbarrier_wait<true>(landed, reduction >> 1 & 1);
        return collect<T>(cluster, combine, [&](int i) {
            T one;
            memcpy(&one, &parts[i], sizeof(T));
            return one;
        });
    }
};

using BlockGroup = Group<GroupScope::block>;

}  // namespace weft::inline WEFT_TARGET::kit
