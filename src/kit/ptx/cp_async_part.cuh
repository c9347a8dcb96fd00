// cp.async of fewer bytes than it writes: what a row's end leaves of a chunk (see cp_async.cuh).
#pragma once

#include "kit/ptx/memory.cuh"

namespace weft::inline WEFT_TARGET::kit {

// Writes `Bytes`, 16, 8 or 4 (both sides aligned to as many): the first `valid` of them, 0 to all, from `global`, zeros behind.
// Of `global` no more is read.
template <int Bytes>
__device__ __forceinline__ void cp_async_part(void* shared, const void* global, int valid) {
    static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
#if defined(WEFT_EMULATOR)
    emulator::copy_async(shared, global, Bytes, valid);
#else
    if constexpr (Bytes == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
                     "l"(global), "r"(valid)
                     : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(shared)),
                     "l"(global), "n"(Bytes), "r"(valid)
                     : "memory");
    }
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
