// Attention: a warp's rows against a tile, on mma.sync.
#pragma once

#include "kit/convert.cuh"
#include "kit/ptx/approximate.cuh"
#include "kit/ptx/ldmatrix.cuh"
#include "kit/ptx/mma.cuh"
#include "kit/ptx/shuffle.cuh"
#include "ops/attention/params.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// What a warp knows of its rows: lane l holds, of 16-row tile t, rows l/4 (h = 0) and l/4 + 8 (h = 1).
template <int kHeadDim>
struct AttentionState {
    static constexpr Tile kTile{kHeadDim};
    static constexpr int kRowTiles = kTile.row_tiles();
    float out[kRowTiles][kHeadDim / 8][4];  // sum of p v, as mma leaves it
    float m[kRowTiles][2];                  // maximum in use, of unscaled scores
    float l[kRowTiles][2];                  // sum of p over this lane's columns
};

template <int kHeadDim>
__device__ __forceinline__ void clear(AttentionState<kHeadDim>& state) {
#pragma unroll
    for (int t = 0; t < state.kRowTiles; ++t) {
#pragma unroll
        for (auto& c : state.out[t]) c[0] = c[1] = c[2] = c[3] = 0;
        state.m[t][0] = state.m[t][1] = minus_infinity();
        state.l[t][0] = state.l[t][1] = 0;
    }
}

template <int kRowTiles>
using Scores = float[kRowTiles][kKeys / 8][4];

// s = q kᵀ for a warp's rows and a tile of keys.
template <class T, int kHeadDim, int kRowTiles>
__device__ __forceinline__ void multiply_scores(Scores<kRowTiles>& s, const T* q, const T* k) {
    constexpr Tile kTile{kHeadDim};
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int query = kTile.offset(lane % 16, lane / 16);
    const int key = kTile.offset(lane % 8 + lane / 16 * 8, lane / 8 % 2);
#pragma unroll
    for (auto& tile : s) {
        for (auto& c : tile) c[0] = c[1] = c[2] = c[3] = 0;
    }
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step) {
        uint32_t a[kRowTiles][4];
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
            kit::ldmatrix_x4(a[t], q + kTile.moved(query, step * 2, t * 16));
        }
#pragma unroll
        for (int n = 0; n < kKeys / 16; ++n) {
            uint32_t b[4];
            kit::ldmatrix_x4(b, k + kTile.moved(key, step * 2, n * 16));
            const uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t) {
                kit::mma_m16n8k16<T>(s[t][2 * n], a[t], low);
                kit::mma_m16n8k16<T>(s[t][2 * n + 1], a[t], high);
            }
        }
    }
}

template <int kRowTiles>
__device__ __forceinline__ void cap_scores(Scores<kRowTiles>& s, float cap_factor) {
#pragma unroll
    for (auto& tile : s) {
#pragma unroll
        for (auto& c : tile) {
#pragma unroll
            for (float& score : c) score = cap_score(score, cap_factor);
        }
    }
}

// Scores of keys that a row does not see become -inf.
template <bool kOptions, int kRowTiles>
__device__ __forceinline__ void mask_scores(Scores<kRowTiles>& s, const AttentionParams& p,
                                            const AttentionBlock& block, const std::uint8_t* mask, int row,
                                            int key) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) {
        KeyRange seen[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int own = row + t * 16 + h * 8 + lane / 4;
            seen[h] = kOptions ? block.seen(p, own) : KeyRange{0, block.limit(p, own)};
        }
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int j = key + n * 8 + lane % 4 * 2 + e % 2;
                const bool hidden = j >= seen[e / 2].end || (kOptions && j < seen[e / 2].first) ||
                                    (mask != nullptr && mask[j] == 0);
                if (hidden) s[t][n][e] = minus_infinity();
            }
        }
    }
}

template <class T>
__device__ __forceinline__ uint32_t pack_pair(float low, float high) {
    if constexpr (std::is_same_v<T, kit::bf16>) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        return *reinterpret_cast<const uint32_t*>(&pair);
    } else {
        const __half2 pair = __floats2half2_rn(low, high);
        return *reinterpret_cast<const uint32_t*>(&pair);
    }
}

// Weights as operands of the next product: an accumulator's layout is that of an operand, two key tiles a
// step.
template <int kRowTiles>
using Weights = uint32_t[kRowTiles][kKeys / 16][4];

// Weights p = exp2(scale (s - m)); where the maximum has outgrown m, what was summed shrinks first.
template <class T, int kHeadDim, int kRowTiles>
__device__ __forceinline__ void softmax_step(Weights<kRowTiles>& p, const Scores<kRowTiles>& s,
                                             AttentionState<kHeadDim>& state, float scale_log2) {
    float top[kRowTiles][2];
    bool outgrown = false;
#pragma unroll
    for (int i = 0; i < 2 * kRowTiles; ++i) {
        const int t = i / 2, h = i % 2;
        float most = minus_infinity();
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) most = fmaxf(most, fmaxf(s[t][n][2 * h], s[t][n][2 * h + 1]));
        most = fmaxf(most, kit::shuffle_xor(most, 1));
        most = fmaxf(most, kit::shuffle_xor(most, 2));
        const float m = state.m[t][h];
        top[t][h] = most > m && !((most - m) * scale_log2 <= kAttentionSlack) ? most : m;
        outgrown |= top[t][h] != m;
    }
    if (kit::any(outgrown)) {
#pragma unroll
        for (int i = 0; i < 2 * kRowTiles; ++i) {
            const int t = i / 2, h = i % 2;
            const bool same = top[t][h] == state.m[t][h];
            const float shrink = same ? 1.0f : maximum_shift(state.m[t][h], top[t][h], scale_log2);
            state.m[t][h] = top[t][h];
            state.l[t][h] *= shrink;
#pragma unroll
            for (auto& c : state.out[t]) c[2 * h] *= shrink, c[2 * h + 1] *= shrink;
        }
    }
#pragma unroll
    for (int i = 0; i < 2 * kRowTiles; ++i) {
        const int t = i / 2, h = i % 2;
        const float base = state.m[t][h] == minus_infinity() ? 0.0f : state.m[t][h] * scale_log2;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
            const float low = kit::exp2_approximate(fmaf(s[t][n][2 * h], scale_log2, -base));
            const float high = kit::exp2_approximate(fmaf(s[t][n][2 * h + 1], scale_log2, -base));
            state.l[t][h] += low + high;
            p[t][n / 2][n % 2 * 2 + h] = pack_pair<T>(low, high);
        }
    }
}

// out += p v.
template <class T, int kHeadDim, int kRowTiles>
__device__ __forceinline__ void accumulate(AttentionState<kHeadDim>& state, const Weights<kRowTiles>& p,
                                           const T* v) {
    constexpr Tile kTile{kHeadDim};
    const int lane = static_cast<int>(threadIdx.x % 32), value = kTile.offset(lane % 16, lane / 16);
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) {
#pragma unroll
        for (int n = 0; n < kHeadDim / 16; ++n) {
            uint32_t b[4];
            kit::ldmatrix_x4_trans(b, v + kTile.moved(value, n * 2, step * 16));
            const uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t) {
                kit::mma_m16n8k16<T>(state.out[t][2 * n], p[t][step], low);
                kit::mma_m16n8k16<T>(state.out[t][2 * n + 1], p[t][step], high);
            }
        }
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
