// Conversions between fp32 and every stored dtype: exact widening, one rounding to nearest even on the way
// back.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kit/target.h"
#include "kit/vector.cuh"
#include "weft/dtype.h"
#include "weft/error.h"

namespace weft::inline WEFT_TARGET::kit {

using bf16 = __nv_bfloat16;
using half = __half;
using e4m3 = __nv_fp8_e4m3;
using e5m2 = __nv_fp8_e5m2;

struct e2m1 {};  // the codes of fp4_e2m1: two of them share a byte, so none is stored alone

// The dtype that a device type stores; a type that stores none does not compile.
template <class T>
struct StoredAs;
template <DType kStored>
struct Stores {
    static constexpr DType kDType = kStored;
};
template <>
struct StoredAs<float> : Stores<DType::fp32> {};
template <>
struct StoredAs<bf16> : Stores<DType::bf16> {};
template <>
struct StoredAs<half> : Stores<DType::fp16> {};
template <>
struct StoredAs<e4m3> : Stores<DType::fp8_e4m3> {};
template <>
struct StoredAs<e5m2> : Stores<DType::fp8_e5m2> {};
template <>
struct StoredAs<e2m1> : Stores<DType::fp4_e2m1> {};
template <>
struct StoredAs<std::int8_t> : Stores<DType::int8> {};
template <>
struct StoredAs<std::uint8_t> : Stores<DType::uint8> {};
template <>
struct StoredAs<std::int32_t> : Stores<DType::int32> {};
template <>
struct StoredAs<long long> : Stores<DType::int64> {};

template <class T>
inline constexpr DType kDTypeOf = StoredAs<T>::kDType;

__device__ __forceinline__ float to_float(float v) { return v; }
__device__ __forceinline__ float to_float(bf16 v) { return __bfloat162float(v); }
__device__ __forceinline__ float to_float(half v) { return __half2float(v); }
__device__ __forceinline__ float to_float(e4m3 v) { return static_cast<float>(v); }
__device__ __forceinline__ float to_float(e5m2 v) { return static_cast<float>(v); }
__device__ __forceinline__ float to_float(std::int8_t v) { return static_cast<float>(v); }

// Rounds to nearest even. fp8 saturates to ± its largest value, infinities too, and NaN stays NaN; int8
// saturates and NaN becomes 0.
template <class T>
__device__ __forceinline__ T from_float(float v) {
    if constexpr (std::is_same_v<T, float>) {
        return v;
    } else if constexpr (std::is_same_v<T, bf16>) {
        return __float2bfloat16_rn(v);
    } else if constexpr (std::is_same_v<T, half>) {
        return __float2half_rn(v);
    } else if constexpr (std::is_same_v<T, std::int8_t>) {
        if (!(v == v)) return 0;
        return static_cast<std::int8_t>(rintf(fminf(fmaxf(v, -128.0f), 127.0f)));
    } else {
        static_assert(std::is_same_v<T, e4m3> || std::is_same_v<T, e5m2>);
        return T(v);
    }
}

// `v` as the dtype of T would store it.
template <class T>
__device__ __forceinline__ float round_through(float v) {
    return to_float(from_float<T>(v));
}

template <class T, int N>
__device__ __forceinline__ void to_floats(const Vec<T, N>& from, float (&to)[N]) {
    if constexpr (std::is_same_v<T, bf16> && N % 2 == 0) {
        // bf16 is the upper half of fp32: two from a 32-bit register, without taking it apart into 16-bit
        // ones.
        struct Words {
            unsigned at[N / 2];
        } words;
        memcpy(&words, static_cast<const void*>(&from), sizeof(words));
#pragma unroll
        for (int i = 0; i < N / 2; ++i) {
            to[2 * i] = __uint_as_float(words.at[i] << 16);
            to[2 * i + 1] = __uint_as_float(words.at[i] & 0xffff0000u);
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; ++i) to[i] = to_float(from[i]);
    }
}

// Two at a time, as the hardware converts; four fp8 codes, since codes that are put together byte by byte are also
// stored so.
template <class T, int N>
__device__ __forceinline__ Vec<T, N> from_floats(const float (&from)[N]) {
    Vec<T, N> to;
    const auto put = [&to](int i, const auto& some) {
        memcpy(static_cast<void*>(&to[i]), static_cast<const void*>(&some), sizeof(some));
    };
    if constexpr (std::is_same_v<T, bf16> && N % 2 == 0) {
#pragma unroll
        for (int i = 0; i < N; i += 2) put(i, __floats2bfloat162_rn(from[i], from[i + 1]));
    } else if constexpr (std::is_same_v<T, half> && N % 2 == 0) {
#pragma unroll
        for (int i = 0; i < N; i += 2) put(i, __floats2half2_rn(from[i], from[i + 1]));
    } else if constexpr ((std::is_same_v<T, e4m3> || std::is_same_v<T, e5m2>) && N % 4 == 0) {
        using Four = std::conditional_t<std::is_same_v<T, e4m3>, __nv_fp8x4_e4m3, __nv_fp8x4_e5m2>;
#pragma unroll
        for (int i = 0; i < N; i += 4)
            put(i, Four(make_float4(from[i], from[i + 1], from[i + 2], from[i + 3])).__x);
    } else if constexpr ((std::is_same_v<T, e4m3> || std::is_same_v<T, e5m2>) && N % 2 == 0) {
        using Two = std::conditional_t<std::is_same_v<T, e4m3>, __nv_fp8x2_e4m3, __nv_fp8x2_e5m2>;
#pragma unroll
        for (int i = 0; i < N; i += 2) put(i, Two(make_float2(from[i], from[i + 1])).__x);
    } else {
#pragma unroll
        for (int i = 0; i < N; ++i) to[i] = from_float<T>(from[i]);
    }
    return to;
}

// Calls `use` with a null pointer to that of the types T, More... which stores `dtype`: a run-time dtype as a uniform
// branch. A dtype that none of them stores ends the call with an Error on the host and in the emulator; a GPU, which has
// no exceptions, takes the last type without asking, so that a choice of n types costs n - 1 comparisons.
template <class T, class... More, class F>
__host__ __device__ __forceinline__ void with_one_of(DType dtype, F use) {
    if constexpr (sizeof...(More) > 0) {
        if (dtype != kDTypeOf<T>) return with_one_of<More...>(dtype, use);
    } else {
#ifndef __CUDA_ARCH__
        if (dtype != kDTypeOf<T>) throw Error(ErrorCode::internal, "", "", "no device type for this dtype");
#endif
    }
    use(static_cast<T*>(nullptr));
}

// Of all that one element can be stored as.
template <class F>
__host__ __device__ __forceinline__ void with_type(DType dtype, F use) {
    with_one_of<bf16, half, e4m3, e5m2, std::int8_t, float>(dtype, use);
}
// The same where only fp32, bf16 and fp16 are possible: a branch less code for each that is not.
template <class F>
__host__ __device__ __forceinline__ void with_wide_type(DType dtype, F use) {
    with_one_of<bf16, half, float>(dtype, use);
}

// Of an element of one of with_type's dtypes.
__device__ __forceinline__ int stored_bytes(DType dtype) {
    return dtype == DType::fp32 ? 4 : dtype == DType::bf16 || dtype == DType::fp16 ? 2 : 1;
}

// One element of an array of any of with_type's dtypes.
__device__ __forceinline__ float load_as(DType dtype, const void* data, std::int64_t index) {
    float v = 0;
    with_type(dtype, [&](auto* type) {
        v = to_float(static_cast<const std::remove_pointer_t<decltype(type)>*>(data)[index]);
    });
    return v;
}
__device__ __forceinline__ void store_as(DType dtype, void* data, std::int64_t index, float v) {
    with_type(dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        static_cast<T*>(data)[index] = from_float<T>(v);
    });
}

// `v` as `dtype` would store it.
__device__ __forceinline__ float round_as(DType dtype, float v) {
    with_type(dtype, [&](auto* type) { v = round_through<std::remove_pointer_t<decltype(type)>>(v); });
    return v;
}

// Largest finite value of a quantised dtype.
__host__ __device__ constexpr float quantized_max(DType dtype) {
    switch (dtype) {
        case DType::fp8_e4m3: return 448.0f;
        case DType::fp8_e5m2: return 57344.0f;
        case DType::fp4_e2m1: return 6.0f;
        default: return 127.0f;
    }
}

// The dynamic scale of values whose largest magnitude is `amax`, of codes up to `max`: stored value times scale is the
// real value. Never subnormal, so that its reciprocal is finite; NaN where amax is.
__host__ __device__ __forceinline__ float dynamic_scale(float amax, float max) {
    if (amax > 0.0f) return fmaxf(amax / max, 0x1p-126f);
    return amax == 0.0f ? 1.0f : amax;
}
__host__ __device__ __forceinline__ float dynamic_scale(float amax, DType dtype) {
    return dynamic_scale(amax, quantized_max(dtype));
}

}  // namespace weft::inline WEFT_TARGET::kit
