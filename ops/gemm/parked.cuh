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
        value[0] += parts[rank].x, value[1] += parts[rank].y, value[2] += parts[rank].z,
            value[3] += parts[rank].w;
    }
}

// Asks for what results `index` of the tile are made of. None where the matrix ends before them.
__device__ __forceinline__ Four take_four(const Epilogue& e, const ParkedSums& sums, int64_t m, int64_t n,
                                          int index, int splits) {
    const int fours = sums.features / 4, token = index / fours, f = index % fours * 4;
    Four four = {};
    four.row = sums.token + token;
    four.column = sums.feature + f;
    if (four.row >= m || four.column >= n) return four;
    four.count = static_cast<int>(min(n - four.column, int64_t{4}));
    load_addends(e, four);
    float* from =
        sums.at + token * sums.stride + (e.gated ? f / sums.group * 2 * sums.group + f % sums.group : f);
    sum_parts(four.value, from, splits);
    if (e.gated) sum_parts(four.up, from + sums.group, splits);
    return four;
}

// By all threads of the blocks that share a tile: until the sums of all are parked; until nobody reads them any more.
__device__ __forceinline__ void await_parked(int splits) {
    splits > 1 ? kit::cluster_sync() : __syncthreads();
}
__device__ __forceinline__ void release_parked(int splits) {
    if (splits > 1) kit::cluster_sync();
}

// Writes this block's part of the results, between the two. By its threads numbered from 0 to `threads`.
__device__ __forceinline__ void finish_parked(const Epilogue& e, const ParkedSums& sums, int64_t m, int64_t n,
                                              int rank, int splits, int thread, int threads) {
    const Scales scales = load_scales(e);
    const int count = sums.tokens * (sums.features / 4);
    for (int i = rank * threads + thread; i < count; i += threads * splits) {
        Four four = take_four(e, sums, m, n, i, splits);
        if (four.count > 0) finish_four(e, scales, four);
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
