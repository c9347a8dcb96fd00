// One kernel source, two targets: the GPU through nvcc, and the emulator through a plain C++ compiler.
//
// A kernel includes this first and uses shared memory only through kit::block_shared and kit::dynamic_shared;
// whatever has no plain C++ form is in kit/ptx. The two compilations meet in one program, so everything that
// they define lives in the inline namespace WEFT_TARGET.
#pragma once

#if defined(WEFT_EMULATOR)
#define WEFT_TARGET emulated
#include <cuda_runtime_api.h>
#include <vector_functions.h>
#include <vector_types.h>
#elif defined(__CUDACC__)
#define WEFT_TARGET cuda
#include <cuda_runtime.h>
#else
#error "kernels are compiled by nvcc, or by a C++ compiler with WEFT_EMULATOR defined"
#endif

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(WEFT_EMULATOR)
#include "emulator/device.h"
// The place in the source that a synchronising function is called from: the emulator compares and reports it.
#define WEFT_WHERE , ::weft::emulator::Where where = ::weft::emulator::Where::current()
#define WEFT_WHERE_ONLY ::weft::emulator::Where where = ::weft::emulator::Where::current()
#else
#define WEFT_WHERE
#define WEFT_WHERE_ONLY
#endif

namespace weft::inline WEFT_TARGET::kit {

#if defined(WEFT_EMULATOR)
template <typename T, typename Tag>
inline char shared_key = 0;  // its address names the storage
#endif

// Static shared memory: one T for each block and Tag, uninitialised.
template <typename T, typename Tag = T>
__device__ __forceinline__ T& block_shared() {
    static_assert(std::is_trivially_default_constructible_v<T> && std::is_trivially_destructible_v<T>,
                  "shared memory is not constructed");
#if defined(WEFT_EMULATOR)
    return *static_cast<T*>(emulator::block_shared(&shared_key<T, Tag>, sizeof(T), alignof(T)));
#else
    __shared__ T storage;
    return storage;
#endif
}

// The dynamic shared array: 16-byte aligned, as many bytes as the launch says, uninitialised.
template <typename T>
__device__ __forceinline__ T* dynamic_shared() {
    static_assert(alignof(T) <= 16, "the dynamic shared array is 16-byte aligned");
#if defined(WEFT_EMULATOR)
    return static_cast<T*>(emulator::dynamic_shared());
#else
    extern __shared__ uint4 weft_dynamic_shared[];
    return reinterpret_cast<T*>(weft_dynamic_shared);
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
