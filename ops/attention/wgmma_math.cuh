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
    float out[kTile.head_dim / 2];  // sum of p v
    float m[2];                     // maximum in use, of unscaled scores
    float l[2];                     // sum of p over this thread's columns
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
        kit::wgmma<T, T, kTile.head_dim, kit::Major::mn>(state.out, p[step], v.moved(step * 16 * 128), true);
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

// Where the maximum of a row, of which each of four lanes knows its own part, has outgrown m, m follows, and `shrink` is
// what sums and outputs have still to be multiplied by; returns whether any row of the warp has one.
template <WgmmaTile kTile>
__device__ __forceinline__ bool follow_maximum(WgmmaState<kTile>& state, float (&shrink)[2],
                                               const float (&own_most)[2], float scale_log2) {
    const auto outgrows = [&](float most, float m) {
        return most > m && !((most - m) * scale_log2 <= kAttentionSlack);
    };
    shrink[0] = shrink[1] = 1.0f;
    // Seldom true, so that lanes seldom have to ask each other.
    if (!kit::any(outgrows(own_most[0], state.m[0]) || outgrows(own_most[1], state.m[1]))) return false;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        float most = own_most[h];
        most = fmaxf(most, kit::shuffle_xor(most, 1));
        most = fmaxf(most, kit::shuffle_xor(most, 2));
        const float m = state.m[h];
        if (!outgrows(most, m)) continue;
        shrink[h] = maximum_shift(m, most, scale_log2);
        state.m[h] = most;
        state.l[h] *= shrink[h];
    }
    return true;
}

// Scores become weights exp2(scale (s - m)); returns what follow_maximum does. Both rows at once, and the maximum of each
// in two parts: in a single chain every step would wait for the one before.
template <WgmmaTile kTile, int kCount>
__device__ __forceinline__ bool weigh(float (&s)[kCount], WgmmaState<kTile>& state, float (&shrink)[2],
                                      float scale_log2) {
    static_assert(kCount % 8 == 0);
    float most[2] = {fmaxf(s[0], s[1]), fmaxf(s[2], s[3])}, more[2] = {fmaxf(s[4], s[5]), fmaxf(s[6], s[7])};
#pragma unroll
    for (int i = 8; i < kCount; i += 8) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            most[h] = fmaxf(most[h], fmaxf(s[i + 2 * h], s[i + 2 * h + 1]));
            more[h] = fmaxf(more[h], fmaxf(s[i + 2 * h + 4], s[i + 2 * h + 5]));
        }
    }
    const bool outgrown =
        follow_maximum(state, shrink, {fmaxf(most[0], more[0]), fmaxf(most[1], more[1])}, scale_log2);
    float base[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) base[h] = state.m[h] == minus_infinity() ? 0.0f : state.m[h] * scale_log2;
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
        const int h = i / 2 % 2;
        s[i] = kit::exp2_approximate(fmaf(s[i], scale_log2, -base[h]));
        s[i + 1] = kit::exp2_approximate(fmaf(s[i + 1], scale_log2, -base[h]));
        state.l[h] += s[i] + s[i + 1];
    }
    return outgrown;
}

template <WgmmaTile kTile>
__device__ __forceinline__ void shrink_output(WgmmaState<kTile>& state, const float (&shrink)[2]) {
#pragma unroll
    for (int i = 0; i < kTile.head_dim / 2; ++i) state.out[i] *= shrink[i / 2 % 2];
}

// Weights as the operand of the next product: an accumulator's layout is that of an operand.
template <class T, int kCount>
__device__ __forceinline__ void pack_weights(uint32_t (&p)[kCount / 8][4], const float (&s)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) p[i / 4][i % 4] = pack_pair<T>(s[2 * i], s[2 * i + 1]);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
