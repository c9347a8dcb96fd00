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

// What comes later in the code and is volatile, as the wait is, comes after the address is found.
__device__ __forceinline__ void have_found([[maybe_unused]] const void* address) {
#if !defined(WEFT_EMULATOR) && defined(__CUDA_ARCH__)
    asm volatile("" ::"l"(address));
#endif
}

// Begins a kernel's work in memory: both of the above. What is `known`, addresses that no memory is needed for, is found
// before: the time that a kernel would wait for the one before it is not lost.
template <class... Known>
__device__ __forceinline__ void begin_memory(const Known*... known) {
    (have_found(known), ...);
    dependency_wait();
    dependents_launch();
}

}  // namespace weft::inline WEFT_TARGET::kit
