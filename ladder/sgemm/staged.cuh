// What the rungs with tiles of 128 by 128 share: slices of 16 along k, row major and padded, in a ring of stages that
// cp.async fills.
#pragma once

#include "ladder/sgemm/product.h"
#include "ladder/stages.cuh"

namespace weft::inline WEFT_TARGET {

inline constexpr int kStagedTile = 128, kStagedSlice = 16, kStagedThreads = 256, kStagedStages = 3;

struct FloatStage {
    alignas(16) float a[kStagedTile][kStagedSlice + 4];
    alignas(16) float b[kStagedSlice][kStagedTile + 8];
};
inline constexpr std::size_t kStagedBytes = kStagedStages * sizeof(FloatStage);

struct Corner {
    std::int64_t row, column;
};
__device__ __forceinline__ Corner corner_of(const Sizes& s) {
    return {blockIdx.x / s.across * kStagedTile, blockIdx.x % s.across * kStagedTile};
}

// Four floats, of which `left` exist and the others are zeros: one copy where rows are whole vectors, else four.
__device__ __forceinline__ void copy_four(float* to, const float* from, std::int64_t left, bool whole) {
    if (whole) return kit::cp_async_16(to, from, left > 0);
    for (int i = 0; i < 4; ++i) kit::cp_async<4>(to + i, i < left ? from + i : from, i < left);
}

// Where there is nothing to copy the address is not used, but must be one.
__device__ __forceinline__ void bring_stage(FloatStage& to, const float* a, const float* b, const Sizes& s,
                                            Corner at, std::int64_t k) {
#pragma unroll
    for (int i = threadIdx.x; i < kStagedTile * kStagedSlice / 4; i += kStagedThreads) {
        const int ra = i / 4, ca = i % 4 * 4, rb = i / 32, cb = i % 32 * 4;
        const std::int64_t left_a = at.row + ra < s.m ? s.k - k - ca : 0;
        const std::int64_t left_b = k + rb < s.k ? s.n - at.column - cb : 0;
        copy_four(&to.a[ra][ca], left_a > 0 ? a + (at.row + ra) * s.k + k + ca : a, left_a, s.whole);
        copy_four(&to.b[rb][cb], left_b > 0 ? b + (k + rb) * s.n + at.column + cb : b, left_b, s.whole);
    }
}

}  // namespace weft::inline WEFT_TARGET
