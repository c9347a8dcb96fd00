// A warp as one thread: what a single lane has to do (elect.sync, SM 9.0), and what all lanes know alike.
#pragma once

#include "kit/ptx/shuffle.cuh"
#include "kit/target.h"

namespace weft::inline WEFT_TARGET::kit {

// True in one lane, the same in every call; the whole warp calls it. In a branch on this the compiler knows that nobody
// else is there: operands of TMA go straight into uniform registers. On threadIdx.x == 0 it makes a loop over lanes of
// each copy.
__device__ __forceinline__ bool elect_one() {
#if !defined(WEFT_EMULATOR) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint32_t elected = 0;
    asm volatile(
        "{\n.reg .pred here;\n"
        "elect.sync _|here, 0xffffffff;\n"
        "@here mov.u32 %0, 1;\n}"
        : "+r"(elected));
    return elected != 0;
#else
    return threadIdx.x % 32 == 0;
#endif
}

// A value that all lanes of a warp have. After this the compiler knows it: what follows from the value is computed once a
// warp, in uniform registers, which is where operands of TMA and descriptors of wgmma have to be.
template <class T>
__device__ __forceinline__ T warp_uniform(T value) {
#if defined(WEFT_EMULATOR)
    return value;
#else
    return shuffle(value, 0);
#endif
}

// The same value, but the compiler cannot tell: what follows from it is computed again, and need not stay in registers
// from an earlier use on.
__device__ __forceinline__ int anew(int value) {
#if !defined(WEFT_EMULATOR) && defined(__CUDA_ARCH__)
    asm volatile("" : "+r"(value));
#endif
    return value;
}

}  // namespace weft::inline WEFT_TARGET::kit
