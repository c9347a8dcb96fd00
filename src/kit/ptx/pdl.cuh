// Programmatic dependent launch (SM 9.0): a kernel launched as `dependent` may start before its predecessor
// ends.
#pragma once

#include "kit/target.h"

namespace weft::inline WEFT_TARGET::kit {

// Waits until the kernels before have ended and what they wrote is visible. Nothing where the launch was not
// dependent. The emulator runs kernels one after another; it checks that a dependent kernel calls this, and its race
// detector that no thread touches memory from before the launch until one it is in order with has.
__device__ __forceinline__ void dependency_wait() {
#if defined(WEFT_EMULATOR)
    emulator::dependency_wait();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel start, once every block has called this or ended.
__device__ __forceinline__ void dependents_launch() {
#if !defined(WEFT_EMULATOR) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
