// st.async (SM 9.0): stores into the shared memory of another block of the cluster that complete their bytes at an
// mbarrier there. Who waits for the phase (mbarrier_wait<true>) sees them; the storing thread waits for nothing.
#pragma once

#if defined(WEFT_EMULATOR)
#include "emulator/async_proxy.h"
#endif

#include "kit/ptx/mbarrier.cuh"

namespace weft::inline WEFT_TARGET::kit {

// Stores 16 bytes to where `shared` (16-byte aligned) is in block `rank`, and completes them at the barrier in the same
// place there. The place must be free, as the other block has to say.
__device__ __forceinline__ void store_async(float4* shared, const float4& value, Mbarrier* barrier,
                                            unsigned rank WEFT_WHERE) {
#if defined(WEFT_EMULATOR)
    emulator::check_aligned("store_async", shared, 16);
    emulator::store_async(shared, &value, barrier, rank, where);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n.reg .b32 there, at;\n"
        "mapa.shared::cluster.u32 there, %0, %6;\n"
        "mapa.shared::cluster.u32 at, %1, %6;\n"
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [there], {%2, %3, %4, %5}, "
        "[at];\n}" ::"r"(shared_address(shared)),
        "r"(shared_address(barrier)), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w), "r"(rank)
        : "memory");
#else
    __trap();
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
