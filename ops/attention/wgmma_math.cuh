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

// Weights that are packed into codes of e4m3 are 2^5 exp2(scale (s - m)). e4m3 goes from 2^-9 to 448, and a maximum that lags
// behind lets weights grow beyond 2^5 until the code of one says that it is 256 or more (kOutgrownCode: what makes the top bit of
// such a code, or of NaN's, one). So a weight of up to 2^-15 of the largest is lost, and none saturates.
constexpr float kCodeShift = 5;
constexpr uint32_t kOutgrownCode = 0x08080808, kTopBits = 0x80808080;
template <class T>
inline constexpr bool kOfCodes = sizeof(T) == 1;
template <class T>
inline constexpr float kWeightShift = kOfCodes<T> ? kCodeShift : 0;

// How a block's scores are scaled before exp2. Of codes the factor of the key head is a part of it, unless that makes it a number
// which does not do for hidden scores of -inf: then `within` multiplies the scores before.
struct ScoreScale {
    float log2, within = 1;
};
template <class T>
__device__ __forceinline__ ScoreScale score_scale(const AttentionParams& p, const AttentionBlock& block) {
    if constexpr (!kOfCodes<T>) return {p.scale_log2};
    const float factor = p.score_factors[block.kv_head], scale = p.scale_log2 * factor;
    constexpr float kLeast = 0x1p-126f, kMost = 0x1p126f;
    return scale >= kLeast && scale <= kMost ? ScoreScale{scale} : ScoreScale{p.scale_log2, factor};
}

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
    for (int step = 0; step < kTile.head_dim / kit::kWgmmaDepth<T>; ++step) {
        const int box = step / 4, inside = step % 4 * 32;
        kit::wgmma<T, T, kTile.keys()>(s, q.moved(box * kTile.query_box_bytes() + inside),
                                       k.moved(box * kTile.box_bytes() + inside), step > 0);
    }
    kit::wgmma_commit();
}

// Of fp8 the tensor cores keep 13 fraction bits of a sum, and would lose the more the longer it is. So the products of a tile
// have accumulators of their own, which are added to the output in fp32.
template <WgmmaTile kTile>
inline constexpr bool kPromoted = kTile.codes;
template <WgmmaTile kTile>
struct TileProducts {
    float sums[kPromoted<kTile> ? kTile.v_dim() / 2 : 1];

    // Those that a tile's values are multiplied into.
    __device__ __forceinline__ auto& of(WgmmaState<kTile>& state) {
        if constexpr (kPromoted<kTile>) {
            return sums;
        } else {
            return state.out;
        }
    }
    // When they are there.
    __device__ __forceinline__ void take(WgmmaState<kTile>& state) {
        kit::wgmma_hold(of(state));
        if constexpr (kPromoted<kTile>) {
#pragma unroll
            for (int i = 0; i < kTile.v_dim() / 2; ++i) state.out[i] += sums[i];
        }
    }
};

// Issues out = p v where that is promoted, else out += p v.
template <class T, WgmmaTile kTile>
__device__ __forceinline__ void issue_values(float (&out)[kTile.v_dim() / 2],
                                             const uint32_t (&p)[kTile.keys() / kit::kWgmmaDepth<T>][4],
                                             const char* values) {
    const auto v = kit::matrix_descriptor(values, kit::Swizzle::bytes128, 1024, kTile.box_bytes());
#pragma unroll
    for (int step = 0; step < kTile.keys() / kit::kWgmmaDepth<T>; ++step) {
        if constexpr (kOfCodes<T>) {
            kit::wgmma<kit::e4m3, T, kTile.v_dim()>(out, p[step], v.moved(step * 32),
                                                    !kPromoted<kTile> || step > 0);
        } else {
            kit::wgmma<T, T, kTile.v_dim(), kit::Major::mn>(out, p[step], v.moved(step * 16 * 128), true);
        }
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

// Weights side by side as an operand of the next product has them.
template <class T, int kWide>
__device__ __forceinline__ uint32_t pack_weights(const float (&p)[kWide]) {
    if constexpr (kOfCodes<T>) {
        uint32_t word;
        const auto codes = kit::from_floats<kit::e4m3>(p);
        memcpy(&word, static_cast<const void*>(&codes), sizeof(word));
        return word;
    } else {
        return pack_pair<T>(p[0], p[1]);
    }
}

// Scores become weights exp2(scale (s - m)), as the operand of the next product: an accumulator's layout is that of an
// operand. Nobody looks for the maximum first: what the weights of a row add up to, which is needed anyway, says whether
// scores have outgrown the maximum in use (or there is none yet, and the sum is infinite or no number). Only then is it
// found, and the tile weighed once more. kFirst: it is found at once. Of codes the codes themselves say it.
template <class T, bool kFirst, WgmmaTile kTile, int kCount, int kSteps>
__device__ __forceinline__ void weigh(uint32_t (&weights)[kSteps][4], const float (&s)[kCount],
                                      WgmmaState<kTile>& state, float scale_log2) {
    constexpr int kWide = 4 / static_cast<int>(sizeof(T));  // weights of a word
    bool found = kFirst;
    if (kFirst) follow_maximum(state, s, scale_log2, {true, true});
#pragma unroll 1
    for (;;) {
        float base[2], sums[2][2] = {};
        uint32_t codes[2] = {};  // of large weights
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            base[h] = found && state.m[h] == minus_infinity() ? 0.0f : -state.m[h] * scale_log2;
            if (kOfCodes<T>) base[h] += kCodeShift;
        }
#pragma unroll
        for (int word = 0; word < kSteps * 4; ++word) {
            const int h = word % 2, first = word / 4 * 4 * kWide + word % 4 / 2 * 2 * kWide + 2 * h;
            float p[kWide];
#pragma unroll
            for (int i = 0; i < kWide; ++i) {
                p[i] = kit::exp2_approximate(fmaf(s[first + i / 2 * 4 + i % 2], scale_log2, base[h]));
                sums[h][i % 2] += p[i];
            }
            weights[word / 4][word % 4] = pack_weights<T>(p);
            if (kOfCodes<T>) codes[h] |= weights[word / 4][word % 4] + kOutgrownCode;
        }
        const float sum[2] = {sums[0][0] + sums[0][1], sums[1][0] + sums[1][1]};
        // The sum of codes is asked as well, which says nothing more, because the compiler would else add it up behind the
        // branch, and keep all weights for that.
        constexpr float kMost = kOfCodes<T> ? kAttentionMost * kCount : kAttentionMost;
        const bool outgrown[2] = {!(sum[0] <= kMost) || (codes[0] & kTopBits) != 0,
                                  !(sum[1] <= kMost) || (codes[1] & kTopBits) != 0};
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
