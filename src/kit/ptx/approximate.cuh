// The special-function unit's own exponential, reciprocal and hyperbolic tangent, one instruction each; the
// first two take subnormals as zero.
#pragma once

#if defined(WEFT_EMULATOR)
#include <cmath>
#endif

#include "kit/target.h"

namespace weft::inline WEFT_TARGET::kit {

#if defined(WEFT_EMULATOR)
namespace detail {
inline float flush_subnormal(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
}  // namespace detail
#endif

// 2^x, relative error at most 2^-22. The model is exact but for its rounding.
__device__ __forceinline__ float exp2_approximate(float x) {
#if defined(WEFT_EMULATOR)
    return detail::flush_subnormal(std::exp2(detail::flush_subnormal(x)));
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

// 1/x, at most 1 ulp off; ±0 from 2^126 on. The model is exact but for its rounding.
__device__ __forceinline__ float reciprocal_approximate(float x) {
#if defined(WEFT_EMULATOR)
    return detail::flush_subnormal(1.0f / detail::flush_subnormal(x));
#else
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

// tanh x, relative error at most 2^-11. The model is exact but for its rounding.
__device__ __forceinline__ float tanh_approximate(float x) {
#if defined(WEFT_EMULATOR)
    return std::tanh(x);
#else
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
