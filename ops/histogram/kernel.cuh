// histogram's kernels.
#pragma once

#include "kit/elementwise.cuh"
#include "kit/ptx/atomic.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kThreads = 256, kBatch = 4;

// What     counts = 0
// Mapping  a thread a count
// Traffic  counts once
__global__ void __launch_bounds__(kThreads) clear_counts(int* counts, int bins) {
    kit::dependency_wait();
    kit::dependents_launch();
    const int bin = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
    if (bin < bins) counts[bin] = 0;
}

// What     counts[v] += how many elements of x are v
// Mapping  a thread owns batches of 4 vectors of a row (kit/elementwise.cuh). Where kShared a block counts in shared
//          memory and adds what it found once; else every element is an atomic in L2
// Traffic  x once: bound by memory, or by atomics where few values are frequent
// Needs    counts begin at 0. Integer additions: any order gives the same counts
template <class T, bool kShared>
__global__ void __launch_bounds__(kThreads)
    histogram(const T* x, std::int64_t stride, bool aligned, kit::RowTiles tiles, int* counts, int bins) {
    constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
    int* own = kShared ? kit::dynamic_shared<int>() : counts;
    if constexpr (kShared) {
        for (int bin = static_cast<int>(threadIdx.x); bin < bins; bin += kThreads) own[bin] = 0;
        __syncthreads();
    }
    kit::dependency_wait();
    kit::dependents_launch();
    kit::for_each_tile<kWidth, kBatch>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t step) {
        kit::Vec<T, kWidth> vectors[kBatch];
        kit::load_batch(vectors, x + row * stride, tiles.dim, column, step, aligned);
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            const int held = kit::left<kWidth>(tiles.dim, column + b * step);
#pragma unroll
            for (int i = 0; i < kWidth; ++i) {
                const auto value = static_cast<std::int64_t>(vectors[b][i]);
                if (i < held && value >= 0 && value < bins) kit::atomic_add(own + value, 1);
            }
        }
    });
    if constexpr (kShared) {
        __syncthreads();
        for (int bin = static_cast<int>(threadIdx.x); bin < bins; bin += kThreads) {
            if (own[bin] != 0) kit::atomic_add(counts + bin, own[bin]);
        }
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
