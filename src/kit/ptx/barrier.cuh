// Named barriers (bar.sync, bar.arrive): 1 to 15, among `threads` threads of the block, in whole warps.
// Barrier 0 is __syncthreads.
#pragma once

#include "kit/target.h"

namespace weft::inline WEFT_TARGET::kit {

// Waits until `threads` threads have arrived, this one included. Orders memory among them.
__device__ __forceinline__ void named_barrier_sync(unsigned id, unsigned threads WEFT_WHERE) {
#if defined(WEFT_EMULATOR)
    emulator::named_barrier(id, threads, true, where);
#else
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
#endif
}

// Arrives without waiting.
__device__ __forceinline__ void named_barrier_arrive(unsigned id, unsigned threads WEFT_WHERE) {
#if defined(WEFT_EMULATOR)
    emulator::named_barrier(id, threads, false, where);
#else
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
