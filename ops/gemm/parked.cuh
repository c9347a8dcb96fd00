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

// By all threads of the blocks that share a tile: until the sums of all are parked; until nobody reads them any more.
__device__ __forceinline__ void await_parked(int splits) {
    splits > 1 ? kit::cluster_sync() : __syncthreads();
}
__device__ __forceinline__ void release_parked(int splits) {
    if (splits > 1) kit::cluster_sync();
}

// Rows that a thread finishes at once, of a tile of so many tokens.
constexpr int finished_rows(int tokens) { return tokens > 16 ? 2 : 1; }

// Writes this block's part of the results, between the two. By its threads numbered from 0 to `threads`: a thread has four
// columns and every so many-th row, kRows at a time.
template <int kRows>
__device__ __forceinline__ void finish_parked(const Epilogue& e, const ParkedSums& sums, int64_t m, int64_t n,
                                              int rank, int splits, int thread, int threads) {
    const int fours = sums.features / 4, together = threads / fours, f = thread % fours * 4;
    const int64_t column = sums.feature + f, left = n - column;
    if (left <= 0) return;
    const Scales scales = load_scales(e);
    const FourColumns columns = load_columns(e, column, static_cast<int>(min(left, int64_t{4})));
    float* from = sums.at + (e.gated ? f / sums.group * 2 * sums.group + f % sums.group : f);
    const int end = static_cast<int>(min(m - sums.token, int64_t{sums.tokens})), apart = together * splits;
#pragma unroll 1
    for (int token = rank * together + thread / fours; token < end; token += kRows * apart) {
        Four rows[kRows] = {};
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            rows[i].row = sums.token + token + i * apart;
            rows[i].wanted = token + i * apart < end;
            if (rows[i].wanted) load_addends(e, columns, rows[i]);
        }
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            if (!rows[i].wanted) continue;
            float* row = from + (token + i * apart) * sums.stride;
            sum_parts(rows[i].value, row, splits);
            if (e.gated) sum_parts(rows[i].up, row + sums.group, splits);
        }
        finish_fours(e, scales, columns, rows);
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
