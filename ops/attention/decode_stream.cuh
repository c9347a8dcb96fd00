// Attention of few rows: what a warp makes of its keys and values.
//
// A lane is (g, t) = (lane / 4, lane % 4). Of the warp's 16 keys of a tile it reads, 16 bytes at a time, pieces of rows g
// and g + 8, which are operands of q kᵀ: which column stands where in an instruction is of no matter as long as queries are
// read alike. Of values it reads pieces of rows 2 t, 2 t + 1, 2 t + 8 and 2 t + 9, the keys whose weights it has; two rows'
// elements of one column, side by side, are operands of p v.
#pragma once

#include "kit/ptx/memory.cuh"
#include "ops/attention/codes.cuh"
#include "ops/attention/decode.h"
#include "ops/attention/sequence.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using attention::DecodeTile;

// Of a warp's lane: which of 16 keys the r-th row of values is of, r < 4; the same whose scores are s[r / 2][r % 2].
__device__ __forceinline__ int decode_key(int r) {
    return static_cast<int>(threadIdx.x) % 4 * 2 + r % 2 + r / 2 * 8;
}

// Pieces of a warp's 16 keys, or values, in a tile whose boxes are swizzled: of the keys n * 8 + g the (4 j + t)-th piece, of
// the r-th values the (8 u + g)-th. As little as possible of where they lie depends on the lane. A piece has eight columns,
// of codes 16.
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

// Queries in shared memory, as a lane reads them: for each 16 columns an operand of rows g and g + 8, made of a word of one
// row and a word of the other in turn. Which columns those are follows from the pieces of keys that they multiply.
template <bool kOfCodes>
__device__ __forceinline__ void store_query(uint32_t* queries, int row, int chunk, const uint4& piece) {
    const int t = kOfCodes ? chunk % 8 / 2 : chunk % 4;
    const int operand = kOfCodes ? chunk / 8 * 4 + chunk % 2 * 2 : chunk / 4 * 2;
    uint32_t* to = queries + (operand * 32 + row % 8 * 4 + t) * 4 + row / 8;
    to[0] = piece.x, to[2] = piece.y, to[128] = piece.z, to[130] = piece.w;
}

// Eight columns of a row of bf16 become fp16, by a power of two that makes the largest finite number of the row's kChunks
// neighbouring lanes no more than 2^15. What is lost is 2^-39 of that number. Returns what undoes it.
template <int kChunks>
__device__ __forceinline__ float scale_query(uint4& piece) {
    constexpr int kTop = 14, kExponents = 127;
    uint32_t* words = &piece.x;
    const auto number = [&](int i) {
        return __uint_as_float(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xffff0000u);
    };
    float most = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const float size = fabsf(number(i));
        if (size < __int_as_float(0x7f800000)) most = fmaxf(most, size);
    }
#pragma unroll
    for (int lane = 1; lane < kChunks; lane *= 2) most = fmaxf(most, kit::shuffle_xor(most, lane));
    const int exponent =
        max(static_cast<int>(__float_as_uint(most) >> 23) - kExponents, kTop + 1 - kExponents);
    const float scale = __int_as_float((kExponents + kTop - exponent) << 23);
#pragma unroll
    for (int i = 0; i < 4; ++i)
        words[i] = pack_pair<kit::half>(number(2 * i) * scale, number(2 * i + 1) * scale);
    return __int_as_float((kExponents - kTop + exponent) << 23);
}

using DecodeScores = float[2][4];  // of eight keys each, as mma leaves them

template <class T, class Stored, int kHeadDim>
__device__ __forceinline__ void multiply_keys(DecodeScores& s, const uint4* queries, const DecodePieces& keys,
                                              bool e5m2) {
    const uint4* own = queries + static_cast<int>(threadIdx.x) % 32;
    float odd[2][4];  // a chain of its own, so that instructions wait less for each other
#pragma unroll
    for (int i = 0; i < 8; ++i) s[i / 4][i % 4] = odd[i / 4][i % 4] = 0;
    constexpr int kOperands = kCodes<Stored> ? 4 : 2;  // of a piece
#pragma unroll
    for (int j = 0; j < kHeadDim / 16 / kOperands; ++j) {
        uint4 query[kOperands];
#pragma unroll
        for (int i = 0; i < kOperands; ++i) query[i] = kit::load(own + 32 * (j * kOperands + i));
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            const uint4 k = keys.key(n, j);
            const uint32_t word[4] = {k.x, k.y, k.z, k.w};
#pragma unroll
            for (int i = 0; i < kOperands; ++i) {
                uint32_t low = word[2 * i % 4], high = word[(2 * i + 1) % 4];
                if constexpr (kCodes<Stored>)
                    low = widen<T>(word[i] & 0xffffu, e5m2), high = widen<T>(word[i] >> 16, e5m2);
                kit::mma_m16n8k16<T>(i % 2 == 0 ? s[n] : odd[n],
                                     {query[i].x, query[i].y, query[i].z, query[i].w}, {low, high});
            }
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

// What a warp knows of its rows g and g + 8. With w columns a piece out[w u + e] holds, of a lane, columns 8 w u + 2 w t + e
// and that plus w of row g, then of row g + 8.
template <int kHeadDim>
struct DecodeState {
    static constexpr int kSums = kHeadDim / 8;
    float out[kSums][4];
    float m[2], l[2];  // maximum in use, of unscaled scores; sum of weights over this lane's keys
};

// Weights as an operand; where the maximum has outgrown m, what was summed shrinks first. The difference is scaled, and not
// the score: of large ones, as codes of e5m2 have, products would be off by more than fp16 holds.
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
        const float base = state.m[h] == minus_infinity() ? 0.0f : state.m[h];
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            const float low = kit::exp2_approximate((s[n][2 * h] - base) * scale_log2);
            const float high = kit::exp2_approximate((s[n][2 * h + 1] - base) * scale_log2);
            state.l[h] += low + high;
            weights[2 * n + h] = pack_pair<T>(low, high);
        }
    }
}

// Column e of two rows' pieces, side by side, as an operand.
template <class T, class Stored>
__device__ __forceinline__ uint32_t column_of_two(const uint32_t (&a)[4], const uint32_t (&b)[4], int e,
                                                  bool e5m2) {
    if constexpr (kCodes<Stored>) {
        const unsigned select = static_cast<unsigned>(e % 4 | (e % 4 + 4) << 4);
        return widen<T>(__byte_perm(a[e / 4], b[e / 4], select) & 0xffffu, e5m2);
    } else {
        return __byte_perm(a[e / 2], b[e / 2], e % 2 == 0 ? 0x5410u : 0x7632u);
    }
}

// out += p v. What is not shown might not be finite, and a weight of zero would not hide it. kPartly: not all is shown.
template <class T, class Stored, bool kPartly, int kHeadDim>
__device__ __forceinline__ void add_values(DecodeState<kHeadDim>& state, const uint32_t (&weights)[4],
                                           const DecodePieces& values, const DecodeShown& shown, bool e5m2) {
    constexpr int kColumns = 16 / static_cast<int>(sizeof(Stored));  // of a piece
#pragma unroll
    for (int u = 0; u < kHeadDim / 8 / kColumns; ++u) {
        uint32_t words[4][4];
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            uint4 piece = values.value(r, u);
            if (kPartly && !shown.key[r]) piece = {};
            words[r][0] = piece.x, words[r][1] = piece.y, words[r][2] = piece.z, words[r][3] = piece.w;
        }
#pragma unroll
        for (int e = 0; e < kColumns; ++e) {
            kit::mma_m16n8k16<T>(state.out[kColumns * u + e], weights,
                                 {column_of_two<T, Stored>(words[0], words[1], e, e5m2),
                                  column_of_two<T, Stored>(words[2], words[3], e, e5m2)});
        }
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
