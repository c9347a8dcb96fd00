// Sums on their way from fragments to results: they pass through shared memory, where a row is a token and four features
// are a vector, and where the blocks of a cluster that share a tile along k meet.
#pragma once

#include "kit/ptx/cluster.cuh"
#include "ops/gemm/epilogue.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// The sums of a block's tile, tokens `stride` floats apart. Gated, `group` features' sums are followed by those of up's
// product, and so on.
struct ParkedSums {
    float* at;
    int stride, group;
    int tokens, features;    // of the tile, those of up not counted
    int64_t token, feature;  // the first of each
};

inline constexpr int kMostParts = 8;  // of a sum: blocks of a cluster

// Four neighbouring sums, the parts of a cluster's blocks added in rank order.
__device__ __forceinline__ void sum_parts(float (&value)[4], float* from, int splits) {
    float4 parts[kMostParts];
#pragma unroll
    for (int rank = 0; rank < kMostParts; ++rank) {
        if (rank >= splits) break;
        parts[rank] = *reinterpret_cast<const float4*>(
            splits > 1 ? kit::cluster_map(from, static_cast<unsigned>(rank)) : from);
    }
    value[0] = value[1] = value[2] = value[3] = 0.0f;
#pragma unroll
    for (int rank = 0; rank < kMostParts; ++rank) {
        if (rank >= splits) break;
        value[0] += parts[rank].x, value[1] += parts[rank].y, value[2] += parts[rank].z, value[3] += parts[rank].w;
    }
}

// Four results before their epilogue. None where count is 0.
struct ParkedFour {
    int token, feature, count;  // in the tile
    float value[4], up[4];
    Addends addends;
};

__device__ __forceinline__ ParkedFour take_four(const Epilogue& e, const ParkedSums& sums, int64_t m, int64_t n, int index,
                                                int splits) {
    const int fours = sums.features / 4;
    ParkedFour four = {};
    four.token = index / fours;
    four.feature = index % fours * 4;
    const int64_t left = n - sums.feature - four.feature;
    if (sums.token + four.token >= m || left <= 0) return four;
    four.count = left < 4 ? static_cast<int>(left) : 4;
    four.addends = load_addends(e, sums.token + four.token, sums.feature + four.feature, four.count);
    const int f = four.feature;
    float* from = sums.at + four.token * sums.stride + (e.gated ? f / sums.group * 2 * sums.group + f % sums.group : f);
    sum_parts(four.value, from, splits);
    if (e.gated) sum_parts(four.up, from + sums.group, splits);
    return four;
}

// By all threads of the blocks that share a tile: until the sums of all are parked; until nobody reads them any more.
__device__ __forceinline__ void await_parked(int splits) { splits > 1 ? kit::cluster_sync() : __syncthreads(); }
__device__ __forceinline__ void release_parked(int splits) {
    if (splits > 1) kit::cluster_sync();
}

// Writes this block's part of the results, between the two. By its threads numbered from 0 to `threads`. What the next
// results need is on its way while these are made.
__device__ __forceinline__ void finish_parked(const Epilogue& e, const ParkedSums& sums, int64_t m, int64_t n, int rank,
                                              int splits, int thread, int threads) {
    const Scales scales = load_scales(e);
    const int count = sums.tokens * (sums.features / 4);
    int i = rank * threads + thread;
    ParkedFour now = {};
    if (i < count) now = take_four(e, sums, m, n, i, splits);
    for (; i < count; i += threads * splits) {
        ParkedFour next = {};
        if (i + threads * splits < count) next = take_four(e, sums, m, n, i + threads * splits, splits);
        if (now.count > 0) {
            finish_four(e, scales, now.addends, sums.token + now.token, sums.feature + now.feature, now.count, now.value,
                        now.up);
        }
        now = next;
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
