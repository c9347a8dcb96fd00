// Thread block clusters and distributed shared memory (SM 9.0). Where there are none, a block is a cluster of
// one.
#pragma once

#include "kit/target.h"

namespace weft::inline WEFT_TARGET::kit {

// The index of this block in its cluster, and how many blocks that has.
__device__ __forceinline__ unsigned cluster_rank() {
#if defined(WEFT_EMULATOR)
    return emulator::cluster_rank();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
#else
    return 0;
#endif
}

__device__ __forceinline__ unsigned cluster_size() {
#if defined(WEFT_EMULATOR)
    return emulator::cluster_size();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    unsigned size;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
#else
    return 1;
#endif
}

// Waits for every thread of the cluster and orders memory among them. A block must also wait so before it
// ends, while others may still read its shared memory.
__device__ __forceinline__ void cluster_sync(WEFT_WHERE_ONLY) {
#if defined(WEFT_EMULATOR)
    emulator::cluster_barrier(where);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
    __syncthreads();
#endif
}

// cluster_sync in two halves, for what starts without the other blocks and needs them later: each thread arrives once and
// waits once before it ends, as whole warps. The arrival publishes nothing but this thread's mbarriers
// (fence_mbarrier_init): an arrival that publishes memory costs a fence of the whole device.
__device__ __forceinline__ void cluster_arrive(WEFT_WHERE_ONLY) {
#if defined(WEFT_EMULATOR)
    emulator::cluster_arrive(where);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#else
    __syncthreads();
#endif
}

__device__ __forceinline__ void cluster_wait(WEFT_WHERE_ONLY) {
#if defined(WEFT_EMULATOR)
    emulator::cluster_wait(where);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
#endif
}

// The same place of the shared memory of block `rank` of the cluster: `shared` points into this block's.
template <typename T>
__device__ __forceinline__ T* cluster_map(T* shared, unsigned rank) {
#if defined(WEFT_EMULATOR)
    return static_cast<T*>(emulator::cluster_map(shared, rank));
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint64_t mapped;
    asm("mapa.u64 %0, %1, %2;" : "=l"(mapped) : "l"(shared), "r"(rank));
    return reinterpret_cast<T*>(mapped);
#else
    return shared;
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
