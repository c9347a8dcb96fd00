// Attention of wide rows: the two products of a tile, on mma.sync, from keys and values of 16 bits or codes of fp8.
#pragma once

#include "kit/ptx/ldmatrix.cuh"
#include "kit/ptx/mma.cuh"
#include "ops/attention/codes.cuh"
#include "ops/attention/wide_ring.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// Where the i-th two of a chunk's eight columns lie among the four words of two chunks of queries. What multiplies codes
// lies in the order in which a lane has them: it reads four codes in a row where an operand of 16 bits has two, and two.
template <bool kOfCodes>
__device__ __forceinline__ int query_word(int chunk, int i) {
    const int half = chunk % 2;
    return kOfCodes ? 2 * half + i / 2 + 4 * (i % 2) : 4 * half + i;
}

// Rows of queries in shared memory: in chunks of 16 bytes, as the ring's.
struct WideQueries {
    uint4* memory;
    int pitch;  // chunks of a row, whole eights

    __device__ uint4* at(int row, int chunk) const { return memory + row * pitch + (chunk ^ (row & 7)); }
};

template <int kTiles>
using WideScores = float[kTiles][2][4];  // of a warp's row tiles and 16 keys

// s += q kᵀ over the columns of an item, of which those beyond the last are zeros in both. `first`: the warp's first row tile;
// of its kTiles kActive hold rows. `key`: its first key.
template <class T, class Stored, int kActive, int kTiles>
__device__ __forceinline__ void multiply_item(WideScores<kTiles>& s, const WideQueries& queries,
                                              const Stored* item, int first, int key, int query_chunk,
                                              bool e5m2) {
    using Ring = WideRing<Stored>;
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int row = key + lane % 8 + lane / 16 * 8, part = lane / 8 % 2;
#pragma unroll
    for (int step = 0; step < WideTile::kChunk / 32; ++step) {
        uint32_t low[2][2], high[2][2];  // [16 columns][keys 0-7, 8-15]: both halves of an operand
        const auto operand = [&](int of, int n, uint32_t a, uint32_t b) {
            (n == 0 ? low : high)[of][0] = a, (n == 0 ? low : high)[of][1] = b;
        };
        if constexpr (kCodes<Stored>) {
            uint32_t b[4];
            kit::ldmatrix_x4(b, item + Ring::offset(row, step * 2 + part));
#pragma unroll
            for (int i = 0; i < 4; ++i)
                operand(i % 2, i / 2, widen<T>(b[i] & 0xffff, e5m2), widen<T>(b[i] >> 16, e5m2));
        } else {
#pragma unroll
            for (int of = 0; of < 2; ++of) {
                uint32_t b[4];
                kit::ldmatrix_x4(b, item + Ring::offset(row, step * 4 + of * 2 + part));
                operand(of, 0, b[0], b[1]), operand(of, 1, b[2], b[3]);
            }
        }
#pragma unroll
        for (int t = 0; t < kActive; ++t) {
#pragma unroll
            for (int of = 0; of < 2; ++of) {
                uint32_t a[4];
                kit::ldmatrix_x4(
                    a, queries.at((first + t) * 16 + lane % 16, query_chunk + step * 4 + of * 2 + lane / 16));
                kit::mma_m16n8k16<T>(s[t][0], a, low[of]);
                kit::mma_m16n8k16<T>(s[t][1], a, high[of]);
            }
        }
    }
}

// out += p v for 16 columns of an item, from the column `column` on. `weights`: rows of 64 in shared memory, of which
// kActive times 16 are there. Two sets of eight columns: the first and the last of 16, or of codes the even and the odd.
template <class T, class Stored, int kActive, int kTiles>
__device__ __forceinline__ void accumulate_item(float (&out)[kTiles][2][4], const uint4* weights,
                                                const Stored* item, int column, bool e5m2) {
    using Ring = WideRing<Stored>;
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int pair = 0; pair < kKeys / 32; ++pair) {
        uint32_t low[2][2], high[2][2];  // [16 keys][keys 0-7, 8-15]
        if constexpr (kCodes<Stored>) {
            uint32_t b[4];  // of eight keys each: a lane has two columns of two keys
            kit::ldmatrix_x4_trans(b, item + Ring::offset(pair * 32 + lane, column / 16));
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                low[i / 2][i % 2] = widen<T>(__byte_perm(b[i], 0, 0x4420), e5m2);
                high[i / 2][i % 2] = widen<T>(__byte_perm(b[i], 0, 0x4431), e5m2);
            }
        } else {
#pragma unroll
            for (int of = 0; of < 2; ++of) {
                uint32_t b[4];
                kit::ldmatrix_x4_trans(
                    b, item + Ring::offset((pair * 2 + of) * 16 + lane % 16, column / 8 + lane / 16));
                low[of][0] = b[0], low[of][1] = b[1], high[of][0] = b[2], high[of][1] = b[3];
            }
        }
#pragma unroll
        for (int t = 0; t < kActive; ++t) {
#pragma unroll
            for (int of = 0; of < 2; ++of) {
                const int row = t * 16 + lane % 16, chunk = (pair * 2 + of) * 2 + lane / 16;
                uint32_t a[4];
                kit::ldmatrix_x4(a, weights + row * (kKeys / 8) + (chunk ^ (row & 7)));
                kit::mma_m16n8k16<T>(out[t][0], a, low[of]);
                kit::mma_m16n8k16<T>(out[t][1], a, high[of]);
            }
        }
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
