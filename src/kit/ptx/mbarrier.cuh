// mbarriers (SM 9.0): a barrier in shared memory whose phases end when a number of arrivals, and of bytes
// from asynchronous copies, have come. The first phase has parity 0.
//
// The emulator looks at an mbarrier's initialisation, at arrivals and bytes beyond what a phase expects, and
// says in a deadlock who waits for what.
#pragma once

#if defined(WEFT_EMULATOR)
#include "emulator/async_proxy.h"
#endif

#include "kit/ptx/memory.cuh"

namespace weft::inline WEFT_TARGET::kit {

// In shared memory, 8-byte aligned.
using Mbarrier = uint64_t;

// One thread, before any other use; then fence_mbarrier_init by that thread and a barrier of the block (or
// cluster, where other blocks arrive or copy).
__device__ __forceinline__ void mbarrier_init(Mbarrier* barrier, unsigned arrivals) {
#if defined(WEFT_EMULATOR)
    emulator::mbarrier_init(barrier, arrivals);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
                 : "memory");
#else
    __trap();
#endif
}

// Makes this thread's initialisations visible to the cluster and to asynchronous copies.
__device__ __forceinline__ void fence_mbarrier_init() {
#if defined(WEFT_EMULATOR)
    emulator::fence_mbarrier_init();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

// Arrives; what this thread did before is visible to who has waited for the phase.
__device__ __forceinline__ void mbarrier_arrive(Mbarrier* barrier WEFT_WHERE) {
#if defined(WEFT_EMULATOR)
    emulator::mbarrier_arrive(barrier, 0, where);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
#else
    __trap();
#endif
}

// Expects `bytes` of copies in this phase, and arrives.
__device__ __forceinline__ void mbarrier_arrive_expect(Mbarrier* barrier, unsigned bytes WEFT_WHERE) {
#if defined(WEFT_EMULATOR)
    emulator::mbarrier_arrive(barrier, bytes, where);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(bytes)
                 : "memory");
#else
    __trap();
#endif
}

// Arrives when the copies have landed that this thread has asked cp.async for so far; it waits for nothing.
__device__ __forceinline__ void mbarrier_arrive_copied(Mbarrier* barrier WEFT_WHERE) {
#if defined(WEFT_EMULATOR)
    emulator::copy_async_commit();
    emulator::copy_async_wait(0);
    emulator::mbarrier_arrive(barrier, 0, where);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier))
                 : "memory");
#else
    __trap();
#endif
}

// Arrives at the barrier in the same place of block `rank` of the cluster, which may be this one. kPublishes: what this
// thread wrote before is visible to who waits there (mbarrier_wait<true>), which costs a fence of the whole device;
// without, for who has only read what the barrier guards.
template <bool kPublishes = true>
__device__ __forceinline__ void mbarrier_arrive_remote(Mbarrier* barrier, unsigned rank WEFT_WHERE) {
#if defined(WEFT_EMULATOR)
    emulator::mbarrier_arrive_remote(barrier, rank, kPublishes, where);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if constexpr (kPublishes) {
        asm volatile(
            "{\n.reg .b32 there;\n"
            "mapa.shared::cluster.u32 there, %0, %1;\n"
            "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}" ::"r"(
                shared_address(barrier)),
            "r"(rank)
            : "memory");
    } else {
        asm volatile(
            "{\n.reg .b32 there;\n"
            "mapa.shared::cluster.u32 there, %0, %1;\n"
            "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(shared_address(barrier)),
            "r"(rank)
            : "memory");
    }
#else
    __trap();
#endif
}

// Waits until the phase of this parity has ended: 0 for the first, third, ... kCluster: sees what threads of other
// blocks published with their arrival.
template <bool kCluster = false>
__device__ __forceinline__ void mbarrier_wait(Mbarrier* barrier, unsigned parity WEFT_WHERE) {
#if defined(WEFT_EMULATOR)
    emulator::mbarrier_wait(barrier, parity, kCluster, where);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint32_t done;
    do {
        if constexpr (kCluster) {
            asm volatile(
                "{\n.reg .pred done;\n"
                "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%1], %2;\n"
                "selp.u32 %0, 1, 0, done;\n}"
                : "=r"(done)
                : "r"(shared_address(barrier)), "r"(parity)
                : "memory");
        } else {
            asm volatile(
                "{\n.reg .pred done;\n"
                "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
                "selp.u32 %0, 1, 0, done;\n}"
                : "=r"(done)
                : "r"(shared_address(barrier)), "r"(parity)
                : "memory");
        }
    } while (done == 0);
#else
    __trap();
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
