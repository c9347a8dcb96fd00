// The product of two numbers of 32 bits and a sum of 64 in one instruction.
#pragma once

#include "kit/target.h"

namespace weft::inline WEFT_TARGET::kit {

// a · b + c. The compiler finds the instruction only where it sees both numbers widened beside the product, and else
// multiplies numbers of 64 bits, in five.
__device__ __forceinline__ std::int64_t multiply_wide(std::int32_t a, std::int32_t b, std::int64_t c) {
#if defined(WEFT_EMULATOR) || !defined(__CUDA_ARCH__)
    return std::int64_t{a} * b + c;
#else
    std::int64_t sum;
    asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(sum) : "r"(a), "r"(b), "l"(c));
    return sum;
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
