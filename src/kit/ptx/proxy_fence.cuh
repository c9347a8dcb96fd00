// fence.proxy.async (SM 9.0): what this thread has written to shared memory becomes visible to bulk stores
// and wgmma. Each thread that wrote executes it, before the barrier that lets another thread issue the
// operation.
//
// The emulator keeps what the asynchronous proxy sees beside shared memory itself, and reports an operation
// that reads where the two differ; its race detector also one that reads what no fence was in order with.
#pragma once

#if defined(WEFT_EMULATOR)
#include "emulator/async_proxy.h"
#endif

#include "kit/target.h"

namespace weft::inline WEFT_TARGET::kit {

__device__ __forceinline__ void fence_proxy_async() {
#if defined(WEFT_EMULATOR)
    emulator::fence_proxy_async();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
