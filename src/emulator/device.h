// What CUDA C++ gives a kernel without a header, for the emulator: built-in variables, barriers, intrinsics.
// Kernels find these names before the global ones, because they live in weft's inline namespace `emulated`.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "emulator/execution.h"

#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__
// Plain `inline`: sanitizers refuse to inline by force between functions that they treat differently.
#undef __forceinline__
#define __forceinline__ inline

#define threadIdx (::weft::emulator::self().thread_index)
#define blockIdx (::weft::emulator::self().block_index)
#define blockDim (::weft::emulator::self().config->block)
#define gridDim (::weft::emulator::self().config->grid)
#define warpSize 32

namespace weft::inline emulated {

inline void __syncthreads(emulator::Where where = emulator::Where::current()) {
    emulator::block_barrier(where);
}
inline int __syncthreads_count(int predicate, emulator::Where where = emulator::Where::current()) {
    return static_cast<int>(emulator::block_barrier(where, predicate != 0));
}
inline int __syncthreads_or(int predicate, emulator::Where where = emulator::Where::current()) {
    return emulator::block_barrier(where, predicate != 0) > 0;
}
inline int __syncthreads_and(int predicate, emulator::Where where = emulator::Where::current()) {
    return emulator::block_barrier(where, predicate == 0) == 0;
}
inline void __syncwarp(emulator::Where where = emulator::Where::current()) {
    emulator::warp_collective("__syncwarp", nullptr, nullptr, where, true);
}
inline unsigned __activemask() { return emulator::live_lanes(); }
inline void __threadfence() { emulator::thread_fence(); }
inline void __threadfence_block() { emulator::thread_fence(); }
inline void __nanosleep(unsigned) { emulator::yield(); }
[[noreturn]] inline void __trap() { emulator::fault("__trap"); }

template <typename T>
T __ldg(const T* address) {
    emulator::check_aligned("__ldg", address, sizeof(T));
    return *address;
}

// The approximate intrinsics are computed as exactly as the host can: an op's tolerance covers the
// difference.
inline float rsqrtf(float x) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x))); }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __exp10f(float x) { return static_cast<float>(std::pow(10.0, static_cast<double>(x))); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __log10f(float x) { return std::log10(x); }
inline float __powf(float x, float y) { return std::pow(x, y); }
inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }
inline float __tanf(float x) { return std::tan(x); }
inline void __sincosf(float x, float* s, float* c) { *s = std::sin(x), *c = std::cos(x); }
inline void sincosf(float x, float* s, float* c) { *s = std::sin(x), *c = std::cos(x); }
inline float __saturatef(float x) { return x > 0.0f ? std::fmin(x, 1.0f) : 0.0f; }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }

// To integers: to nearest even or towards zero, saturating, and 0 for NaN.
template <typename To>
To convert_saturating(float x) {
    if (std::isnan(x)) return 0;
    constexpr float kLow = static_cast<float>(std::numeric_limits<To>::min());
    constexpr float kHigh = -2.0f * static_cast<float>(std::numeric_limits<std::make_signed_t<To>>::min());
    constexpr float kEnd = std::is_signed_v<To> ? -kLow : kHigh;  // the first value above the largest
    if (x <= kLow) return std::numeric_limits<To>::min();
    return x >= kEnd ? std::numeric_limits<To>::max() : static_cast<To>(x);
}
inline int __float2int_rn(float x) { return convert_saturating<int>(std::nearbyint(x)); }
inline int __float2int_rz(float x) { return convert_saturating<int>(x); }
inline int __float2int_rd(float x) { return convert_saturating<int>(std::floor(x)); }
inline int __float2int_ru(float x) { return convert_saturating<int>(std::ceil(x)); }
inline unsigned __float2uint_rn(float x) { return convert_saturating<unsigned>(std::nearbyint(x)); }
inline unsigned __float2uint_rz(float x) { return convert_saturating<unsigned>(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }

inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1u) << (31 - bit);
    return reversed;
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const uint64_t bytes = uint64_t{y} << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned choice = selector >> (4 * i);
        unsigned byte = static_cast<unsigned>(bytes >> (8 * (choice & 7))) & 0xff;
        if (choice & 8) byte = byte & 0x80 ? 0xff : 0;
        result |= byte << (8 * i);
    }
    return result;
}
inline unsigned __umulhi(unsigned x, unsigned y) { return static_cast<unsigned>(uint64_t{x} * y >> 32); }

// CUDA's own min and max: for floats the one that is a number, for integers of two types their common type.
template <typename A, typename B>
    requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
constexpr std::common_type_t<A, B> min(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>) return std::fmin(static_cast<T>(a), static_cast<T>(b));
    return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
template <typename A, typename B>
    requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
constexpr std::common_type_t<A, B> max(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>) return std::fmax(static_cast<T>(a), static_cast<T>(b));
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}

}  // namespace weft::inline emulated
