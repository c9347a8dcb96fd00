// cp.async: copies from global to shared memory that go on beside the computation. A copy has landed once its
// group was waited for, for the thread that made it; for the others after a barrier as well.
#pragma once

#include "kit/ptx/memory.cuh"

namespace weft::inline WEFT_TARGET::kit {

// Copies 16 bytes (both sides 16-byte aligned, past L1), or writes 16 zeros where not `valid`: then `global`
// is not read.
__device__ __forceinline__ void cp_async_16(void* shared, const void* global, bool valid = true) {
#if defined(WEFT_EMULATOR)
    emulator::copy_async(shared, global, 16, valid ? 16 : 0);
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global),
                 "r"(valid ? 16 : 0)
                 : "memory");
#endif
}

// The same for 4 or 8 bytes, through L1.
template <int Bytes>
__device__ __forceinline__ void cp_async(void* shared, const void* global, bool valid = true) {
    static_assert(Bytes == 4 || Bytes == 8, "16 bytes have a function of their own");
#if defined(WEFT_EMULATOR)
    emulator::copy_async(shared, global, Bytes, valid ? Bytes : 0);
#else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(shared)), "l"(global),
                 "n"(Bytes), "r"(valid ? Bytes : 0)
                 : "memory");
#endif
}

// Makes a group of the copies since the last commit.
__device__ __forceinline__ void cp_async_commit() {
#if defined(WEFT_EMULATOR)
    emulator::copy_async_commit();
#else
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most the Newest last groups of this thread are still in flight.
template <int Newest>
__device__ __forceinline__ void cp_async_wait() {
#if defined(WEFT_EMULATOR)
    emulator::copy_async_wait(Newest);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(Newest) : "memory");
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
