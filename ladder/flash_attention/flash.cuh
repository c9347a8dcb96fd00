// What the rungs on tensor cores share: a warp's 16 queries by a tile of keys, in the fragments of mma.sync. A lane has
// two rows: a pair of columns of each piece of eight, in values 0, 1 and 2, 3.
#pragma once

#include "kit/ptx/shuffle.cuh"
#include "ladder/flash_attention/attend.h"
#include "ladder/half_tile.cuh"
#include "ladder/stages.cuh"

namespace weft::inline WEFT_TARGET {

inline constexpr int kFlashWarps = 4, kFlashThreads = 32 * kFlashWarps, kFlashRows = 16 * kFlashWarps,
                     kKeys = 64;

// A warp's output so far, with the maximum and the sum of each of a lane's rows.
template <int kHead>
struct Rows {
    float out[kHead / 8][4], top[2], sum[2];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < kHead / 2; ++i) out[i / 4][i % 4] = 0.0f;
        top[0] = top[1] = minus_infinity(), sum[0] = sum[1] = 0.0f;
    }
};

template <int kWide>
using Scores = float[kWide / 8][4];

// scores += a · (16 columns of the keys)ᵀ, for one step of 16 along the head.
template <int kWide, class Tile>
__device__ __forceinline__ void score_step(Scores<kWide>& scores, const std::uint32_t (&a)[4], Tile& keys,
                                           int key, int column) {
#pragma unroll
    for (int n = 0; n < kWide / 8; ++n) {
        std::uint32_t b[2];
        fragment_b(b, keys, key + 8 * n, column);
        kit::mma_m16n8k16<__half>(scores[n], a, b);
    }
}

// Hides the keys from `key` on that a row does not see; `row` is the lane's first.
template <int kWide>
__device__ __forceinline__ void hide(Scores<kWide>& scores, const Calls& c, std::int64_t row,
                                     std::int64_t key) {
    const std::int64_t sees[2] = {keys_of(c, row), keys_of(c, row + 8)};
#pragma unroll
    for (int i = 0; i < kWide / 2; ++i) {
        const std::int64_t at = key + i / 4 * 8 + lane_of_warp() % 4 * 2 + i % 2;
        if (at >= sees[i % 4 / 2]) scores[i / 4][i % 4] = minus_infinity();
    }
}

// Weights of halves, as A's fragments of the product with the values: where a lane has scores, it needs weights.
template <int kWide>
using Weights = std::uint32_t[kWide / 16][4];

__device__ __forceinline__ std::uint32_t pair_of(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    std::uint32_t bits;
    memcpy(&bits, &pair, sizeof(bits));
    return bits;
}

// One step of online softmax.
template <int kWide, int kHead>
__device__ __forceinline__ void weigh(Weights<kWide>& weights, const Scores<kWide>& scores, Rows<kHead>& rows,
                                      float scale) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        float top = rows.top[h];
#pragma unroll
        for (int i = 0; i < kWide / 4; ++i) top = fmaxf(top, scores[i / 2][2 * h + i % 2]);
        top = fmaxf(top, kit::shuffle_xor(top, 1));
        top = fmaxf(top, kit::shuffle_xor(top, 2));
        const float shrink = shrink_of(rows.top[h], top, scale);
        rows.top[h] = top, rows.sum[h] *= shrink;
#pragma unroll
        for (int i = 0; i < kHead / 4; ++i) rows.out[i / 2][2 * h + i % 2] *= shrink;
#pragma unroll
        for (int n = 0; n < kWide / 8; ++n) {
            const float low = weight_of(scores[n][2 * h], top, scale),
                        high = weight_of(scores[n][2 * h + 1], top, scale);
            rows.sum[h] += low + high;
            weights[n / 2][n % 2 * 2 + h] = pair_of(low, high);
        }
    }
}

// out += weights · values, for the eight columns of piece n, which are those from `column` on of the tile.
template <int kWide, class Tile>
__device__ __forceinline__ void add_values(float (&out)[4], const Weights<kWide>& weights, Tile& values,
                                           int key, int column) {
#pragma unroll
    for (int i = 0; i < kWide / 16; ++i) {
        std::uint32_t b[2];
        fragment_b_transposed(b, values, key + 16 * i, column);
        kit::mma_m16n8k16<__half>(out, weights[i], b);
    }
}

// The four lanes of a row have a part of its sum each.
template <int kHead>
__device__ __forceinline__ void complete_sums(Rows<kHead>& rows) {
#pragma unroll
    for (float& sum : rows.sum) {
        sum += kit::shuffle_xor(sum, 1);
        sum += kit::shuffle_xor(sum, 2);
    }
}
template <int kHead>
__device__ __forceinline__ void store_rows(const Rows<kHead>& rows, const Calls& c, const Head& head,
                                           std::int64_t row) {
#pragma unroll
    for (int i = 0; i < kHead / 2; ++i) {
        const std::int64_t query = row + i % 4 / 2 * 8;
        const int d = i / 4 * 8 + lane_of_warp() % 4 * 2 + i % 2;
        const float sum = rows.sum[i % 4 / 2], value = sum == 0.0f ? 0.0f : rows.out[i / 4][i % 4] / sum;
        if (query < c.q_tokens && d < c.head_dim)
            head.out[query * head.q_stride + d] = __float2half_rn(value);
    }
}

// Tiles of keys that a block's last row sees.
__device__ __forceinline__ std::int64_t tiles_of(const Calls& c, const Head& head, int rows) {
    return (keys_of(c, min(head.first + rows, c.q_tokens) - 1) + kKeys - 1) / kKeys;
}
// Of a head's tokens kKeys (or kFlashRows), from `first` on; kWidth elements of each, from `column` on.
template <class Tile>
__device__ __forceinline__ void bring_keys(Tile& to, const __half* from, const Calls& c, const Head& head,
                                           std::int64_t first, std::int64_t column = 0) {
    bring_tile<kFlashThreads>(to, from, c.kv_tokens, c.head_dim, head.kv_stride, first, column, c.whole);
}
template <class Tile>
__device__ __forceinline__ void bring_queries(Tile& to, const Calls& c, const Head& head,
                                              std::int64_t column = 0) {
    bring_tile<kFlashThreads>(to, head.q, c.q_tokens, c.head_dim, head.q_stride, head.first, column, c.whole);
}

// The lane's first row.
__device__ __forceinline__ std::int64_t flash_row(const Head& head) {
    return head.first + threadIdx.x / 32 * 16 + lane_of_warp() / 4;
}

}  // namespace weft::inline WEFT_TARGET
