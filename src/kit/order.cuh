// Floats as integers of the same order, for selections that must not depend on who looks first.
#pragma once

#include <cstdint>

#include "kit/target.h"

namespace weft::inline WEFT_TARGET::kit {

// Larger for a larger value; both zeros are one, NaN is above all.
__device__ __forceinline__ unsigned ordered_bits(float value) {
    if (value != value) return 0xffffffffu;
    const unsigned bits = __float_as_uint(value == 0.0f ? 0.0f : value);
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// Unique in a row: of equal values the one of the lower index is larger. Never 0.
__device__ __forceinline__ std::uint64_t ranked(float value, unsigned index) {
    return std::uint64_t{ordered_bits(value)} << 32 | static_cast<unsigned>(~index);
}
__device__ __forceinline__ unsigned index_of(std::uint64_t rank) { return ~static_cast<unsigned>(rank); }

}  // namespace weft::inline WEFT_TARGET::kit
