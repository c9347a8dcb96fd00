// amax's kernel.
#pragma once

#include "kit/amax.cuh"
#include "kit/ptx/atomic.cuh"
#include "kit/ptx/pdl.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kAmaxWidth = 8;

// What     *amax = max(*amax, max |x|)
// Mapping  a thread owns batches of 4 vectors of a row (kit/elementwise.cuh); blocks meet in one atomic each
// Traffic  x once: bound by memory, 64 bytes in flight a thread
// Needs    *amax is not below 0, or its sign bit alone decides: as an integer any negative number is the
// smallest.
//          The maximum does not depend on the order of the atomics
template <class T>
__global__ void __launch_bounds__(256)
    amax(const T* x, std::int64_t stride, bool aligned, kit::RowTiles tiles, float* result) {
    kit::dependency_wait();
    kit::dependents_launch();
    const float amax = kit::block_amax<T, kAmaxWidth>(x, stride, aligned, tiles, kit::MaxOrNan{});
    // NaN's sign is dropped, so that it orders above every number.
    if (threadIdx.x == 0) kit::atomic_max(result, fabsf(amax));
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
