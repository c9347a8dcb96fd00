// setmaxnreg (SM 9.0a): moves registers between the warpgroups of a block. All warps of a warpgroup execute
// it; Count is a multiple of 8 in [24, 256]. Needs __launch_bounds__(threads, 1), and each role in one branch
// of an if/else. The emulator has registers enough.
#pragma once

#include "kit/target.h"

namespace weft::inline WEFT_TARGET::kit {

template <int Count>
__device__ __forceinline__ void registers_release() {
    static_assert(Count % 8 == 0 && Count >= 24 && Count <= 256);
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
#endif
}

template <int Count>
__device__ __forceinline__ void registers_acquire() {
    static_assert(Count % 8 == 0 && Count >= 24 && Count <= 256);
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
