// A running maximum with the sum of exponentials that belongs to it.
#pragma once

#include "ladder/softmax/rows.h"

namespace weft::inline WEFT_TARGET {

struct Running {
    float max, sum;  // sum: of e^(x - max)
};

// Each sum is brought to the larger maximum before they are added. Where both are -infinity nothing is there to bring.
struct Merge {
    __device__ __forceinline__ Running operator()(Running a, Running b) const {
        const float max = Larger{}(a.max, b.max), shift = shift_of(max);
        return {max, a.sum * expf(a.max - shift) + b.sum * expf(b.max - shift)};
    }
};

__device__ __forceinline__ Running nothing_yet() { return {-INFINITY, 0.0f}; }

}  // namespace weft::inline WEFT_TARGET
