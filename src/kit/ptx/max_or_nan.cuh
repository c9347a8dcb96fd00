// The larger of two numbers, NaN where one of them is: one instruction, where fmaxf passes NaN over.
#pragma once

#include <cmath>

#include "kit/target.h"

namespace weft::inline WEFT_TARGET::kit {

__device__ __forceinline__ float max_or_nan(float a, float b) {
#if defined(WEFT_EMULATOR)
    return std::isnan(a) || std::isnan(b) ? NAN : std::fmax(a, b);
#else
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
    return larger;
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
