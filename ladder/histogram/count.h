// What the rungs of this topic share: which calls they take, and counts that start at 0.
#pragma once

#include "kit/ptx/atomic.cuh"
#include "ladder/rung.h"
#include "ops/histogram/histogram.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void clear(int* counts, std::int64_t bins) {
    const std::int64_t i = thread_in_grid();
    if (i < bins) counts[i] = 0;
}

// A value out of range is no bin, and must not become an address.
__device__ __forceinline__ void count(int* counts, int bins, int value) {
    if (value >= 0 && value < bins) kit::atomic_add(counts + value, 1);
}

const char* decline_histogram(const Histogram& op, const DeviceInfo&) {
    if (!is_dense(op.x, DType::int32)) return "takes dense int32";
    return starts_aligned(op.x, 16) ? nullptr : "takes tensors that start at a multiple of 16 bytes";
}

// Clears, then counts with a thread for `width` elements.
inline void launch_histogram(const char* name, void (*kernel)(const int*, std::int64_t, int*, int), int width,
                             const Histogram& op, Context& context) {
    const std::int64_t n = op.x.numel();
    kit::launch(name, clear, {.grid = blocks_for(op.bins, 256), .block = 256}, context.stream(),
                op.counts.as<int>(), op.bins);
    if (n == 0) return;
    kit::launch(name, kernel, {.grid = blocks_for(divide_up(n, width), 256), .block = 256}, context.stream(),
                op.x.as<const int>(), n, op.counts.as<int>(), static_cast<int>(op.bins));
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
