// Loads and stores of 1, 2, 4, 8 or 16 bytes with a hint to the caches. The address must be aligned to the
// size.
#pragma once

#include "kit/target.h"

namespace weft::inline WEFT_TARGET::kit {

// The address of shared memory as the instructions take it: an offset in the shared window.
#if !defined(WEFT_EMULATOR)
__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}
#endif

// The first multiple of Alignment from `shared` on, by the address that the instructions see: the dynamic
// array is aligned to 16 bytes only. The same place in every block of a cluster.
template <unsigned Alignment>
__device__ __forceinline__ char* align_shared(void* shared) {
    static_assert(Alignment <= 1024 && (Alignment & (Alignment - 1)) == 0);
#if defined(WEFT_EMULATOR)
    const auto address = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(shared));
#else
    const uint32_t address = shared_address(shared);
#endif
    return static_cast<char*>(shared) + (0u - address) % Alignment;
}

namespace detail {

template <size_t Bytes>
struct RawOf;
template <>
struct RawOf<1> {
    using type = unsigned char;
};
template <>
struct RawOf<2> {
    using type = unsigned short;
};
template <>
struct RawOf<4> {
    using type = unsigned int;
};
template <>
struct RawOf<8> {
    using type = uint2;
};
template <>
struct RawOf<16> {
    using type = uint4;
};
template <typename V>
using Raw = typename RawOf<sizeof(V)>::type;

template <typename V>
__device__ __forceinline__ V from_raw(Raw<V> raw) {
    static_assert(std::is_trivially_copyable_v<V>);
    V value;
    memcpy(static_cast<void*>(&value), &raw, sizeof(V));  // V may have constructors
    return value;
}

template <typename V>
__device__ __forceinline__ Raw<V> to_raw(const V& value) {
    static_assert(std::is_trivially_copyable_v<V>);
    Raw<V> raw;
    memcpy(&raw, static_cast<const void*>(&value), sizeof(V));
    return raw;
}

#if defined(WEFT_EMULATOR)
template <typename V>
V load_checked(const V* address) {
    emulator::check_aligned("vector load", address, sizeof(V));
    return from_raw<V>(*reinterpret_cast<const Raw<V>*>(address));
}

template <typename V>
void store_checked(V* address, const V& value) {
    emulator::check_aligned("vector store", address, sizeof(V));
    *reinterpret_cast<Raw<V>*>(address) = to_raw(value);
}
#else
// As one number: four words, which a store of 16 bytes is to the compiler, are not always joined again; in loops of several
// stores, and behind branches, it was seen to leave the four. A number of 128 bits is never taken apart.
template <typename V>
using Stored = std::conditional_t<sizeof(V) == 16, unsigned __int128, Raw<V>>;
#endif

}  // namespace detail

template <typename V>
__device__ __forceinline__ V load(const V* address) {
#if defined(WEFT_EMULATOR)
    return detail::load_checked(address);
#else
    return detail::from_raw<V>(*reinterpret_cast<const detail::Raw<V>*>(address));
#endif
}

// How long L2 keeps the lines that loads bring: as any other, or after all others (kit/l2_keep.h).
struct L2Policy {
    uint64_t bits = 0;
};
__device__ __forceinline__ L2Policy l2_policy(bool keep) {
#if defined(WEFT_EMULATOR)
    return {static_cast<uint64_t>(keep)};
#else
    L2Policy normal, last;
    asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(normal.bits));
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(last.bits));
    return keep ? last : normal;
#endif
}

// Loads of less than 16 bytes know no policy.
template <typename V>
__device__ __forceinline__ V load(const V* address, [[maybe_unused]] L2Policy policy) {
#if !defined(WEFT_EMULATOR)
    if constexpr (sizeof(V) == 16) {
        uint4 raw;
        asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                     : "=r"(raw.x), "=r"(raw.y), "=r"(raw.z), "=r"(raw.w)
                     : "l"(address), "l"(policy.bits)
                     : "memory");
        return detail::from_raw<V>(raw);
    }
#endif
    return load(address);
}

// Asks L2 for the line of global memory that has this address; nothing waits for it.
__device__ __forceinline__ void prefetch_l2([[maybe_unused]] const void* address) {
#if !defined(WEFT_EMULATOR)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
}

// Global memory that no thread writes while the kernel runs.
template <typename V>
__device__ __forceinline__ V load_readonly(const V* address) {
#if defined(WEFT_EMULATOR)
    return detail::load_checked(address);
#else
    return detail::from_raw<V>(__ldg(reinterpret_cast<const detail::Raw<V>*>(address)));
#endif
}

// Global memory that is read once: evicted first.
template <typename V>
__device__ __forceinline__ V load_streaming(const V* address) {
#if defined(WEFT_EMULATOR)
    return detail::load_checked(address);
#else
    return detail::from_raw<V>(__ldcs(reinterpret_cast<const detail::Raw<V>*>(address)));
#endif
}

template <typename V>
__device__ __forceinline__ void store(V* address, const V& value) {
#if defined(WEFT_EMULATOR)
    detail::store_checked(address, value);
#else
    static_assert(std::is_trivially_copyable_v<V>);
    detail::Stored<V> raw;
    memcpy(&raw, static_cast<const void*>(&value), sizeof(V));
    *reinterpret_cast<detail::Stored<V>*>(address) = raw;
#endif
}

// Global memory that is not read again soon: evicted first.
template <typename V>
__device__ __forceinline__ void store_streaming(V* address, const V& value) {
#if defined(WEFT_EMULATOR)
    detail::store_checked(address, value);
#else
    __stcs(reinterpret_cast<detail::Raw<V>*>(address), detail::to_raw(value));
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
