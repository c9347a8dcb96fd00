// What the rungs with tiles of 128 by 128 share: slices of 32 along k in a ring of stages, the order of the blocks, and
// a warp's mma. Eight warps, two by four, have 64 by 32 outputs each.
#pragma once

#include "ladder/half_tile.cuh"
#include "ladder/sgemm/product.h"
#include "ladder/stages.cuh"

namespace weft::inline WEFT_TARGET {

inline constexpr int kStagedTile = 128, kStagedSlice = 32, kStagedThreads = 256;

// kTransposed: B is [n, k], so that its slice lies as A's.
template <Banks kBanks, bool kTransposed = false>
struct Stage {
    HalfTile<kStagedTile, kStagedSlice, kBanks> a;
    HalfTile<kTransposed ? kStagedTile : kStagedSlice, kTransposed ? kStagedSlice : kStagedTile, kBanks> b;
};

struct Corner {
    std::int64_t row, column;
};
__device__ __forceinline__ Corner by_rows(const Sizes& s) {
    return {blockIdx.x / s.across * kStagedTile, blockIdx.x % s.across * kStagedTile};
}
// Eight rows of tiles together, column by column: blocks that run at one time share rows of A and columns of B.
__device__ __forceinline__ Corner by_groups(const Sizes& s) {
    constexpr std::int64_t kTogether = 8;
    const std::int64_t down = (s.m + kStagedTile - 1) / kStagedTile,
                       group = blockIdx.x / (kTogether * s.across);
    const std::int64_t within = blockIdx.x % (kTogether * s.across), first = group * kTogether;
    const std::int64_t height = min(kTogether, down - first);
    return {(first + within % height) * kStagedTile, within / height * kStagedTile};
}

template <Banks kBanks, bool kTransposed>
__device__ __forceinline__ void bring_slices(Stage<kBanks, kTransposed>& to, const __half* a, const __half* b,
                                             const Sizes& s, Corner at, std::int64_t k) {
    bring_tile<kStagedThreads>(to.a, a, s.m, s.k, s.k, at.row, k, s.whole);
    if constexpr (kTransposed) {
        bring_tile<kStagedThreads>(to.b, b, s.n, s.k, s.k, at.column, k, s.whole);
    } else {
        bring_tile<kStagedThreads>(to.b, b, s.k, s.n, s.n, k, at.column, s.whole);
    }
}

// A warp's place in the block's tile, and its sums: 4 by 4 mma of 16 by 8.
struct Warp {
    int row, column;
};
__device__ __forceinline__ Warp staged_warp() {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    return {warp / 4 * 64, warp % 4 * 32};
}
struct Fragments {
    std::uint32_t a[4][4], b[4][2];
};
template <Banks kBanks, bool kTransposed>
__device__ __forceinline__ void load(Fragments& to, Stage<kBanks, kTransposed>& stage, Warp at, int k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        fragment_a(to.a[i], stage.a, at.row + 16 * i, k);
        if constexpr (kTransposed) {
            fragment_b(to.b[i], stage.b, at.column + 8 * i, k);
        } else {
            fragment_b_transposed(to.b[i], stage.b, k, at.column + 8 * i);
        }
    }
}
__device__ __forceinline__ void multiply(float (&sums)[4][4][4], const Fragments& from) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) kit::mma_m16n8k16<__half>(sums[i][j], from.a[i], from.b[j]);
    }
}

// The sums where they are: a lane has pairs of neighbours.
__device__ __forceinline__ void store_pairs(const float (&sums)[4][4][4], __half* c, const Sizes& s,
                                            Corner at, Warp warp) {
    const int lane = lane_of_warp();
#pragma unroll
    for (int i = 0; i < 64; ++i) {
        const int down = i / 16, across = i / 4 % 4, e = i % 4;
        const std::int64_t row = at.row + warp.row + 16 * down + lane / 4 + e / 2 * 8;
        const std::int64_t column = at.column + warp.column + 8 * across + lane % 4 * 2 + e % 2;
        if (row < s.m && column < s.n) c[row * s.n + column] = __float2half_rn(sums[down][across][e]);
    }
}

template <int kStages, Banks kBanks, bool kTransposed, Corner (*kOrder)(const Sizes&)>
__global__ void __launch_bounds__(kStagedThreads)
    gemm_staged(const __half* a, const __half* b, __half* c, Sizes s) {
    using Slices = Stage<kBanks, kTransposed>;
    const Corner at = kOrder(s);
    const Warp warp = staged_warp();
    float sums[4][4][4] = {};
    for_stages<kStages>(
        kit::dynamic_shared<Slices>(), (s.k + kStagedSlice - 1) / kStagedSlice,
        [&](Slices& to, std::int64_t step) { bring_slices(to, a, b, s, at, step * kStagedSlice); },
        [&](Slices& now) {
#pragma unroll
            for (int k = 0; k < kStagedSlice; k += 16) {
                Fragments fragments;
                load(fragments, now, warp, k);
                multiply(sums, fragments);
            }
        });
    store_pairs(sums, c, s, at, warp);
}

template <int kStages, Banks kBanks, bool kTransposed, Corner (*kOrder)(const Sizes&)>
void launch_staged(const char* name, const Gemm& op, Context& context) {
    launch_product(name, gemm_staged<kStages, kBanks, kTransposed, kOrder>, kStagedTile, kStagedTile,
                   dim3(kStagedThreads), op, context, kStages * sizeof(Stage<kBanks, kTransposed>));
}

}  // namespace weft::inline WEFT_TARGET
