// elect.sync (SM 9.0): one lane of a warp for what a single thread has to do.
#pragma once

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

}  // namespace weft::inline WEFT_TARGET::kit
