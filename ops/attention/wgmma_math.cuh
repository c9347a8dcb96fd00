// Attention on wgmma: a warpgroup's 64 rows against a tile of keys and values.
#pragma once

#include "kit/ptx/approximate.cuh"
#include "kit/ptx/shuffle.cuh"
#include "kit/ptx/wgmma.cuh"
#include "ops/attention/params.cuh"
#include "ops/attention/warp_math.cuh"
#include "ops/attention/wgmma.h"

namespace weft::inline WEFT_TARGET {
namespace {

using attention::WgmmaTile;

// What a thread of a warpgroup knows of its two rows (h): those of its accumulators, 8 apart.
template <WgmmaTile kTile>
struct WgmmaState {
    float out[kTile.v_dim() / 2];  // sum of p v
    float m[2];                    // maximum in use, of unscaled scores
    float l[2];                    // sum of p over this thread's columns
};

// Row of the warpgroup and column of accumulator i.
__device__ __forceinline__ int wgmma_row(int h) {
    return static_cast<int>(threadIdx.x) % 128 / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4 + 8 * h;
}
__device__ __forceinline__ int wgmma_column(int i) {
    return i / 4 * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + i % 2;
}

template <WgmmaTile kTile>
__device__ __forceinline__ void clear(WgmmaState<kTile>& state) {
#pragma unroll
    for (float& sum : state.out) sum = 0;
    state.m[0] = state.m[1] = minus_infinity();
    state.l[0] = state.l[1] = 0;
}

// Issues s = q kᵀ: the rows of `queries` (of this warpgroup, in the first box), the keys of a slot.
template <class T, WgmmaTile kTile>
__device__ __forceinline__ void issue_scores(float (&s)[kTile.keys() / 2], const char* queries,
                                             const char* keys) {
    const auto q = kit::matrix_descriptor(queries, kit::Swizzle::bytes128, 1024);
    const auto k = kit::matrix_descriptor(keys, kit::Swizzle::bytes128, 1024);
#pragma unroll
    for (int step = 0; step < kTile.head_dim / 16; ++step) {
        const int box = step / 4, inside = step % 4 * 32;
        kit::wgmma<T, T, kTile.keys()>(s, q.moved(box * kTile.query_box_bytes() + inside),
                                       k.moved(box * kTile.box_bytes() + inside), step > 0);
    }
    kit::wgmma_commit();
}

// Issues out += p v.
template <class T, WgmmaTile kTile>
__device__ __forceinline__ void issue_values(WgmmaState<kTile>& state,
                                             const uint32_t (&p)[kTile.keys() / 16][4], const char* values) {
    const auto v = kit::matrix_descriptor(values, kit::Swizzle::bytes128, 1024, kTile.box_bytes());
#pragma unroll
    for (int step = 0; step < kTile.keys() / 16; ++step) {
        kit::wgmma<T, T, kTile.v_dim(), kit::Major::mn>(state.out, p[step], v.moved(step * 16 * 128), true);
    }
    kit::wgmma_commit();
}

template <int kCount>
__device__ __forceinline__ void cap_scores(float (&s)[kCount], float cap_factor) {
#pragma unroll
    for (float& score : s) score = cap_score(score, cap_factor);
}

// Scores of keys that a row does not see become -inf. `row`: the warpgroup's first.
template <bool kOptions, int kCount>
__device__ __forceinline__ void hide_scores(float (&s)[kCount], const AttentionParams& p,
                                            const AttentionBlock& block, int row, int key) {
    KeyRange seen[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int own = row + wgmma_row(h);
        seen[h] = kOptions ? block.seen(p, own) : KeyRange{0, block.limit(p, own)};
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        const int j = key + wgmma_column(i), h = i / 2 % 2;
        if (j >= seen[h].end || (kOptions && j < seen[h].first)) s[i] = minus_infinity();
    }
    const std::uint8_t* mask = block.mask(p);
    if (mask == nullptr) return;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        if (i / 2 % 2 != 0) continue;  // a mask byte serves both rows
        const int j = key + wgmma_column(i);
        if (j < block.keys && mask[j] == 0) s[i] = s[i + 2] = minus_infinity();
    }
}

// Of the rows that any of their four lanes calls outgrown the maximum takes this tile in, and what was summed shrinks by as
// much. Other rows stay as they are, so that none depends on its neighbours.
template <WgmmaTile kTile, int kCount>
__device__ __forceinline__ void follow_maximum(WgmmaState<kTile>& state, const float (&s)[kCount],
                                               float scale_log2, const bool (&outgrown)[2]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        float most = fmaxf(s[2 * h], s[2 * h + 1]);
#pragma unroll
        for (int i = 4; i < kCount; i += 4) most = fmaxf(most, fmaxf(s[i + 2 * h], s[i + 2 * h + 1]));
        int row_outgrown = outgrown[h];
#pragma unroll
        for (int lane = 1; lane <= 2; lane *= 2) {
            most = fmaxf(most, kit::shuffle_xor(most, lane));
            row_outgrown |= kit::shuffle_xor(row_outgrown, lane);
        }
        if (row_outgrown == 0 || !(most > state.m[h])) continue;
        const float shrink = maximum_shift(state.m[h], most, scale_log2);
        state.m[h] = most;
        state.l[h] *= shrink;
#pragma unroll
        for (int i = 2 * h; i < kTile.v_dim() / 2; i += 4) state.out[i] *= shrink, state.out[i + 1] *= shrink;
    }
}

// Scores become weights exp2(scale (s - m)), as the operand of the next product: an accumulator's layout is that of an
// operand. Nobody looks for the maximum first: what the weights of a row add up to, which is needed anyway, says whether
// scores have outgrown the maximum in use (or there is none yet, and the sum is infinite or no number). Only then is it
// found, and the tile weighed once more. kFirst: it is found at once.
template <class T, bool kFirst, WgmmaTile kTile, int kCount>
__device__ __forceinline__ void weigh(uint32_t (&weights)[kCount / 8][4], const float (&s)[kCount],
                                      WgmmaState<kTile>& state, float scale_log2) {
    bool found = kFirst;
    if (kFirst) follow_maximum(state, s, scale_log2, {true, true});
#pragma unroll 1
    for (;;) {
        float base[2], sums[2][2] = {};
#pragma unroll
        for (int h = 0; h < 2; ++h)
            base[h] = found && state.m[h] == minus_infinity() ? 0.0f : -state.m[h] * scale_log2;
#pragma unroll
        for (int i = 0; i < kCount; i += 2) {
            const int h = i / 2 % 2;
            const float low = kit::exp2_approximate(fmaf(s[i], scale_log2, base[h]));
            const float high = kit::exp2_approximate(fmaf(s[i + 1], scale_log2, base[h]));
            sums[h][0] += low, sums[h][1] += high;
            weights[i / 8][i / 2 % 4] = pack_pair<T>(low, high);
        }
        const float sum[2] = {sums[0][0] + sums[0][1], sums[1][0] + sums[1][1]};
        const bool outgrown[2] = {!(sum[0] <= kAttentionMost), !(sum[1] <= kAttentionMost)};
        if (found || !kit::any(outgrown[0] || outgrown[1])) {
            state.l[0] += sum[0], state.l[1] += sum[1];
            return;
        }
        follow_maximum(state, s, scale_log2, outgrown);
        found = true;
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
