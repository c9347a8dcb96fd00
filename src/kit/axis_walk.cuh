// The indices of several axes from one number, for kernels over tensors of any strides.
#pragma once

#include <cstdint>

#include "kit/divisor.cuh"

namespace weft::inline WEFT_TARGET::kit {

// Axes, the fastest first; number n is index i0 + size0 · (i1 + size1 · …).
struct AxisWalk {
    static constexpr int kMost = 7;
    int axes = 0;
    bool wide = false;  // 2^31 numbers or more
    std::int64_t size[kMost] = {};
    Divisor divisor[kMost];

    // Host.
    void add(std::int64_t n) {
        size[axes] = n;
        if (n >> 31 == 0) divisor[axes] = Divisor::of(n);
        ++axes;
        wide = count() >> 31 != 0;
    }
    std::int64_t count() const {
        std::int64_t n = 1;
        for (int i = 0; i < axes; ++i) n *= size[i];
        return n;
    }

    // The index of an axis, where n is a number over it and those behind it; n becomes one over those alone.
    __device__ __forceinline__ std::int64_t take(int axis, std::int64_t& n) const {
        const std::int64_t rest = wide ? n / size[axis] : divisor[axis].quotient(static_cast<unsigned>(n));
        const std::int64_t index = n - rest * size[axis];
        n = rest;
        return index;
    }
    // Calls use(axis, index) for each axis. One after the other in the code: what a kernel's parameters say of an axis is then
    // part of an instruction, and not loaded and waited for.
    template <class Use>
    __device__ __forceinline__ void each(std::int64_t n, Use use) const {
#pragma unroll
        for (int i = 0; i < kMost; ++i) {
            if (i >= axes) break;
            use(i, take(i, n));
        }
    }
};

}  // namespace weft::inline WEFT_TARGET::kit
