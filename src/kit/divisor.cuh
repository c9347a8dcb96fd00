// Division by a number that the host knows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kit/target.h"

namespace weft::inline WEFT_TARGET::kit {

// Division of numbers below 2^31 by one that the host knows: a multiplication and a shift, exact since the
// multiplier is 2^(31 + shift) / d rounded up, with 2^shift >= d.
struct Divisor {
    unsigned divisor = 1, multiplier = 1u << 31, shift = 0;

    static Divisor of(std::int64_t d) {
        d = std::max<std::int64_t>(1, d);  // what nothing is divided by may be 0
        Divisor by{.divisor = static_cast<unsigned>(d)};
        while (std::int64_t{1} << by.shift < d) ++by.shift;
        by.multiplier =
            static_cast<unsigned>(((std::uint64_t{1} << (31 + by.shift)) + by.divisor - 1) / by.divisor);
        return by;
    }
    // Of which every number has the quotient 0.
    static Divisor endless() { return {.divisor = 0, .multiplier = 0}; }

    __device__ __forceinline__ unsigned quotient(unsigned n) const {
        return __umulhi(2 * n, multiplier) >> shift;
    }
};

}  // namespace weft::inline WEFT_TARGET::kit
