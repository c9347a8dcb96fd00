// Attention of few rows: what a warp makes of its keys and values.
//
// A lane is (g, t) = (lane / 4, lane % 4). Of the warp's 16 keys of a tile it reads, 16 bytes at a time, pieces of rows g
// and g + 8, which are operands of q kᵀ: which column stands where in an instruction is of no matter as long as queries are
// read alike. Of values it reads pieces of rows 2 t, 2 t + 1, 2 t + 8 and 2 t + 9, the keys whose weights it has; two rows'
// elements of one column, side by side, are operands of p v.
#pragma once

#include "kit/ptx/memory.cuh"
#include "ops/attention/decode.h"
#include "ops/attention/sequence.cuh"
#include "ops/attention/warp_math.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using attention::DecodeTile;

// Of a warp's lane: which of 16 keys the r-th row of values is of, r < 4; the same whose scores are s[r / 2][r % 2].
__device__ __forceinline__ int decode_key(int r) {
    return static_cast<int>(threadIdx.x) % 4 * 2 + r % 2 + r / 2 * 8;
}

// Pieces of a warp's 16 keys, or values, in a tile whose boxes are swizzled: of the keys n * 8 + g the columns from
// 8 (4 j + t) on, of the r-th values those from 8 (8 u + g) on. As little as possible of where they lie depends on the lane.
template <int kHeadDim>
struct DecodePieces {
    static constexpr int kBox = DecodeTile::box_bytes();
    const char* rows;  // the warp's first

    __device__ uint4 key(int n, int j) const {
        const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
        return kit::load(reinterpret_cast<const uint4*>(rows + (g * 128 + ((t ^ g) * 16 ^ j % 2 * 64)) +
                                                        (j / 2 * kBox + n * 1024)));
    }
    __device__ uint4 value(int r, int u) const {
        const int lane = static_cast<int>(threadIdx.x) % 32, row = lane % 4 * 2 + r % 2;
        return kit::load(reinterpret_cast<const uint4*>(rows + (row * 128 + (lane / 4 ^ row) * 16) +
                                                        (u * kBox + r / 2 * 1024)));
    }
};

// Which of the keys whose scores a lane has are there, and not hidden by a mask: of decode_key(r) the r-th.
struct DecodeShown {
    bool key[4];

    // Of the warp's keys from `first` on. `mask`: of the batch's keys, or null.
    __device__ void read(const std::uint8_t* mask, int first, int end) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const int own = first + decode_key(r);
            key[r] = own < end && (mask == nullptr || mask[own] != 0);
        }
    }
};

// Queries in shared memory, as a lane reads them: two operands of rows g and g + 8 for each 64 columns, made of a word of
// one row and a word of the other in turn.
__device__ __forceinline__ void store_query(uint32_t* queries, int row, int chunk, const uint4& piece) {
    uint32_t* to = queries + (chunk / 4 * 64 + row % 8 * 4 + chunk % 4) * 4 + row / 8;
    to[0] = piece.x, to[2] = piece.y, to[128] = piece.z, to[130] = piece.w;
}

using DecodeScores = float[2][4];  // of eight keys each, as mma leaves them

template <class T, int kHeadDim>
__device__ __forceinline__ void multiply_keys(DecodeScores& s, const uint4* queries,
                                              const DecodePieces<kHeadDim>& keys) {
    const uint4* own = queries + static_cast<int>(threadIdx.x) % 32;
    float odd[2][4];  // a chain of its own, so that instructions wait less for each other
#pragma unroll
    for (int i = 0; i < 8; ++i) s[i / 4][i % 4] = odd[i / 4][i % 4] = 0;
#pragma unroll
    for (int j = 0; j < kHeadDim / 32; ++j) {
        const uint4 low = kit::load(own + 64 * j), high = kit::load(own + 64 * j + 32);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            const uint4 k = keys.key(n, j);
            kit::mma_m16n8k16<T>(s[n], {low.x, low.y, low.z, low.w}, {k.x, k.y});
            kit::mma_m16n8k16<T>(odd[n], {high.x, high.y, high.z, high.w}, {k.z, k.w});
        }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) s[i / 4][i % 4] += odd[i / 4][i % 4];
}

// Scores of keys that a row does not see become -inf.
__device__ __forceinline__ void hide_scores(DecodeScores& s, const AttentionParams& p,
                                            const AttentionBlock& block, const DecodeShown& shown, int row,
                                            int key) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const KeyRange seen = block.seen(p, row + 8 * h);
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const int own = key + decode_key(r);
            if (own >= seen.end || own < seen.first || !shown.key[r])
                s[r / 2][2 * h + r % 2] = minus_infinity();
        }
    }
}

// What a warp knows of its rows g and g + 8. out[8 u + e] holds, of a lane, columns 64 u + 16 t + e and that plus 8 of
// row g, then of row g + 8.
template <int kHeadDim>
struct DecodeState {
    static constexpr int kSums = kHeadDim / 8;
    float out[kSums][4];
    float m[2], l[2];  // maximum in use, of unscaled scores; sum of weights over this lane's keys
};

// Weights as an operand; where the maximum has outgrown m, what was summed shrinks first.
template <class T, int kHeadDim>
__device__ __forceinline__ void weigh(uint32_t (&weights)[4], const DecodeScores& s,
                                      DecodeState<kHeadDim>& state, float scale_log2) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        float top = fmaxf(fmaxf(s[0][2 * h], s[0][2 * h + 1]), fmaxf(s[1][2 * h], s[1][2 * h + 1]));
        top = fmaxf(top, kit::shuffle_xor(top, 1));
        top = fmaxf(top, kit::shuffle_xor(top, 2));
        const float m = state.m[h];
        const bool outgrown = top > m && !((top - m) * scale_log2 <= kAttentionSlack);
        if (kit::any(outgrown)) {
            const float shrink = outgrown ? maximum_shift(m, top, scale_log2) : 1.0f;
            state.m[h] = outgrown ? top : m;
            state.l[h] *= shrink;
#pragma unroll
            for (auto& c : state.out) c[2 * h] *= shrink, c[2 * h + 1] *= shrink;
        }
        const float base = state.m[h] == minus_infinity() ? 0.0f : state.m[h] * scale_log2;
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            const float low = kit::exp2_approximate(fmaf(s[n][2 * h], scale_log2, -base));
            const float high = kit::exp2_approximate(fmaf(s[n][2 * h + 1], scale_log2, -base));
            state.l[h] += low + high;
            weights[2 * n + h] = pack_pair<T>(low, high);
        }
    }
}

// out += p v: the w-th words of two keys' pieces are their columns 2 w and 2 w + 1. What is not shown might not be finite,
// and a weight of zero would not hide it. kPartly: not all is shown.
template <class T, bool kPartly, int kHeadDim>
__device__ __forceinline__ void add_values(DecodeState<kHeadDim>& state, const uint32_t (&weights)[4],
                                           const DecodePieces<kHeadDim>& values, const DecodeShown& shown) {
#pragma unroll
    for (int u = 0; u < kHeadDim / 64; ++u) {
        uint32_t words[4][4];
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            uint4 piece = values.value(r, u);
            if (kPartly && !shown.key[r]) piece = {};
            words[r][0] = piece.x, words[r][1] = piece.y, words[r][2] = piece.z, words[r][3] = piece.w;
        }
#pragma unroll
        for (int e = 0; e < 8; ++e) {
            const unsigned select = e % 2 == 0 ? 0x5410u : 0x7632u;
            kit::mma_m16n8k16<T>(state.out[8 * u + e], weights,
                                 {__byte_perm(words[0][e / 2], words[1][e / 2], select),
                                  __byte_perm(words[2][e / 2], words[3][e / 2], select)});
        }
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
