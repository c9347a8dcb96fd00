// Atomics on global and shared memory. Relaxed, as CUDA's: __threadfence makes them publish what was written
// before.
#pragma once

#if defined(WEFT_EMULATOR)
#include <atomic>
#endif

#include "kit/target.h"

namespace weft::inline WEFT_TARGET::kit {

#if defined(WEFT_EMULATOR)
namespace detail {

template <typename T, typename Operation>
T atomically(T* address, Operation operation) {
    emulator::check_aligned("atomic", address, sizeof(T));
    emulator::before_atomic(address);
    const std::atomic_ref<T> value(*address);
    T old = value.load(std::memory_order_relaxed);
    while (!value.compare_exchange_weak(old, operation(old), std::memory_order_relaxed)) {}
    emulator::after_atomic(address);
    return old;
}

}  // namespace detail
#endif

// Each returns the value before.
template <typename T>
__device__ __forceinline__ T atomic_add(T* address, T value) {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, int> || std::is_same_v<T, unsigned>);
#if defined(WEFT_EMULATOR)
    return detail::atomically(address, [value](T old) {
        if constexpr (std::is_same_v<T, int>) {  // wraps around
            return static_cast<int>(static_cast<unsigned>(old) + static_cast<unsigned>(value));
        } else {
            return old + value;
        }
    });
#else
    return atomicAdd(address, value);
#endif
}

__device__ __forceinline__ int atomic_max(int* address, int value) {
#if defined(WEFT_EMULATOR)
    return detail::atomically(address, [value](int old) { return old < value ? value : old; });
#else
    return atomicMax(address, value);
#endif
}

// For values that are not negative (their bits are ordered as integers). NaN counts as larger than any
// number.
__device__ __forceinline__ float atomic_max(float* address, float value) {
    return __int_as_float(atomic_max(reinterpret_cast<int*>(address), __float_as_int(value)));
}

// Writes `value` if the old value is `expected`.
template <typename T>
__device__ __forceinline__ T atomic_compare_exchange(T* address, T expected, T value) {
    static_assert(std::is_same_v<T, int> || std::is_same_v<T, unsigned>);
#if defined(WEFT_EMULATOR)
    return detail::atomically(address, [=](T old) { return old == expected ? value : old; });
#else
    return atomicCAS(address, expected, value);
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
