// Mean and variance of many numbers from those of their parts, without the cancellation of E[x²] − mean².
#pragma once

#include "kit/target.h"

namespace weft::inline WEFT_TARGET::kit {

struct Moments {
    float count, mean, squares;  // squares: of the distances from the mean, summed
};

// Commutative but for rounding.
struct MergeMoments {
    static __device__ __forceinline__ Moments identity() { return {0.0f, 0.0f, 0.0f}; }
    __device__ __forceinline__ Moments operator()(const Moments& a, const Moments& b) const {
        const float count = a.count + b.count;
        if (a.count == 0.0f) return b;
        if (b.count == 0.0f) return a;
        const float apart = b.mean - a.mean, share = b.count / count;
        return {count, a.mean + apart * share, a.squares + b.squares + apart * apart * a.count * share};
    }
};

// Of the first `count` of N numbers.
template <int N>
__device__ __forceinline__ Moments moments_of(const float (&x)[N], int count) {
    float sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int i = 0; i < N; ++i) sum += i < count ? x[i] : 0.0f;
    const float mean = sum / static_cast<float>(count);
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const float apart = x[i] - mean;
        squares += i < count ? apart * apart : 0.0f;
    }
    return {static_cast<float>(count), mean, squares};
}

}  // namespace weft::inline WEFT_TARGET::kit
