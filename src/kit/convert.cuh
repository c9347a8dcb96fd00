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

namespace weft::inline WEFT_TARGET::kit {

using bf16 = __nv_bfloat16;
using half = __half;
using e4m3 = __nv_fp8_e4m3;
using e5m2 = __nv_fp8_e5m2;

// The dtype that a device type stores.
template <class T>
inline constexpr DType kDTypeOf = std::is_same_v<T, float>          ? DType::fp32
                                  : std::is_same_v<T, bf16>         ? DType::bf16
                                  : std::is_same_v<T, half>         ? DType::fp16
                                  : std::is_same_v<T, e4m3>         ? DType::fp8_e4m3
                                  : std::is_same_v<T, e5m2>         ? DType::fp8_e5m2
                                  : std::is_same_v<T, std::int8_t>  ? DType::int8
                                  : std::is_same_v<T, std::uint8_t> ? DType::uint8
                                                                    : DType::int32;

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

// Calls `use` with a null pointer to the device type of fp32, 16 bits, fp8 or int8: a run-time dtype as a uniform
// branch.
template <class F>
__host__ __device__ __forceinline__ void with_type(DType dtype, F use) {
    switch (dtype) {
        case DType::fp32: use(static_cast<float*>(nullptr)); break;
        case DType::bf16: use(static_cast<bf16*>(nullptr)); break;
        case DType::fp16: use(static_cast<half*>(nullptr)); break;
        case DType::fp8_e4m3: use(static_cast<e4m3*>(nullptr)); break;
        case DType::fp8_e5m2: use(static_cast<e5m2*>(nullptr)); break;
        case DType::int8: use(static_cast<std::int8_t*>(nullptr)); break;
        default: break;
    }
}

// The same where only fp32, bf16 and fp16 are possible: a branch less code for each that is not.
template <class F>
__host__ __device__ __forceinline__ void with_wide_type(DType dtype, F use) {
    switch (dtype) {
        case DType::bf16: use(static_cast<bf16*>(nullptr)); break;
        case DType::fp16: use(static_cast<half*>(nullptr)); break;
        default: use(static_cast<float*>(nullptr)); break;
    }
}

// One element of an array of any floating dtype.
__device__ __forceinline__ float load_as(DType dtype, const void* data, std::int64_t index) {
    switch (dtype) {
        case DType::bf16: return to_float(static_cast<const bf16*>(data)[index]);
        case DType::fp16: return to_float(static_cast<const half*>(data)[index]);
        case DType::fp8_e4m3: return to_float(static_cast<const e4m3*>(data)[index]);
        case DType::fp8_e5m2: return to_float(static_cast<const e5m2*>(data)[index]);
        case DType::int8: return to_float(static_cast<const std::int8_t*>(data)[index]);
        default: return static_cast<const float*>(data)[index];
    }
}
__device__ __forceinline__ void store_as(DType dtype, void* data, std::int64_t index, float v) {
    switch (dtype) {
        case DType::bf16: static_cast<bf16*>(data)[index] = from_float<bf16>(v); break;
        case DType::fp16: static_cast<half*>(data)[index] = from_float<half>(v); break;
        case DType::fp8_e4m3: static_cast<e4m3*>(data)[index] = from_float<e4m3>(v); break;
        case DType::fp8_e5m2: static_cast<e5m2*>(data)[index] = from_float<e5m2>(v); break;
        case DType::int8: static_cast<std::int8_t*>(data)[index] = from_float<std::int8_t>(v); break;
        default: static_cast<float*>(data)[index] = v; break;
    }
}

// `v` as `dtype` would store it.
__device__ __forceinline__ float round_as(DType dtype, float v) {
    switch (dtype) {
        case DType::bf16: return round_through<bf16>(v);
        case DType::fp16: return round_through<half>(v);
        case DType::fp8_e4m3: return round_through<e4m3>(v);
        case DType::fp8_e5m2: return round_through<e5m2>(v);
        default: return v;
    }
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
