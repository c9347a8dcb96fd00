// Attention whose products are those of fp8: its values transposed.
#pragma once

#include "kit/divisor.cuh"
#include "kit/ptx/pdl.cuh"
#include "ops/attention/codes.cuh"
#include "ops/attention/fp8.h"

namespace weft::inline WEFT_TARGET {
namespace {

// Values [batch, tokens, heads, columns], and where their codes go: [batch, heads, columns, padded].
struct TransposeParams {
    const Code* from;
    Code* to;
    AttentionStrides stride;
    const std::int32_t* kv_lengths;  // or null
    const std::uint8_t* key_mask;    // or null
    std::int64_t mask_stride;
    int tokens, padded, columns, heads;
    kit::Divisor by_tiles, by_heads;
    AttentionCodes codes;
    float* factors;  // [2, heads]: of scores, of values
};

constexpr int kTransposeThreads = 256;
constexpr int kTransposeColumns = 128;  // of a block
// The codes of a block, four in a word; a word more a column keeps what lanes store in different banks.
struct TransposedTile {
    uint32_t words[kTransposeColumns][attention::kTransposedKeys / 4 + 1];
};

// Which key of its 32 stands at place `r` of word `word`. The weights of 32 keys are an operand whose lane has places 4 q to 4 q
// + 3 and 16 + 4 q to 16 + 4 q + 3, and come from accumulators whose lane has columns 8 j + 2 q and 8 j + 2 q + 1: in this order
// each lane has its own.
__device__ __forceinline__ int key_at(int word, int r) {
    return word / 4 * 16 + r / 2 * 8 + word % 4 * 2 + r % 2;
}

// Four rows of four codes, of which `to` gets the columns.
__device__ __forceinline__ void transpose_codes(uint32_t (&to)[4], const uint32_t (&rows)[4]) {
    const uint32_t low[2] = {__byte_perm(rows[0], rows[1], 0x5140), __byte_perm(rows[2], rows[3], 0x5140)};
    const uint32_t high[2] = {__byte_perm(rows[0], rows[1], 0x7362), __byte_perm(rows[2], rows[3], 0x7362)};
    to[0] = __byte_perm(low[0], low[1], 0x5410), to[1] = __byte_perm(low[0], low[1], 0x7632);
    to[2] = __byte_perm(high[0], high[1], 0x5410), to[3] = __byte_perm(high[0], high[1], 0x7632);
}

// What:    to[column, place] = from[key at that place, column], zeros for keys that do not exist or are masked, whose codes
//          might be NaN; and the factors of each key head's scores and values
// Mapping: a block has 128 keys of a head and 128 columns. A thread takes 16 columns of four keys through registers into
//          shared memory; a warp stores a column at a time
// Traffic: one byte read and one written an element; bound by the memory
// Needs:   columns in whole sixteens at 16-byte addresses, `padded` of whole 128, kTransposeThreads threads
__global__ void __launch_bounds__(kTransposeThreads) attention_transpose(const TransposeParams p) {
    TransposedTile& shared = kit::block_shared<TransposedTile>();
    kit::dependency_wait();
    kit::dependents_launch();
    if (blockIdx.x == 0 && blockIdx.y == 0) store_factors(p.codes, p.factors, p.heads);
    const unsigned all_heads = p.by_tiles.quotient(blockIdx.x), batch = p.by_heads.quotient(all_heads);
    const int tile =
        static_cast<int>(blockIdx.x - all_heads * p.by_tiles.divisor) * attention::kTransposedKeys;
    const auto head = static_cast<int>(all_heads - batch * p.by_heads.divisor);
    const int first_column = static_cast<int>(blockIdx.y) * kTransposeColumns;
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int column = (warp % 4 * 2 + lane % 2) * 16, word = warp / 4 * 16 + lane / 2;
    const int keys = p.kv_lengths == nullptr ? p.tokens : min(max(p.kv_lengths[batch], 0), p.tokens);
    uint32_t rows[4][4] = {};
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        const int key = tile + word / 8 * 32 + key_at(word % 8, r);
        if (first_column + column >= p.columns || key >= keys) continue;
        if (p.key_mask != nullptr && p.key_mask[batch * p.mask_stride + key] == 0) continue;
        const Code* row = p.from + batch * p.stride.batch + key * p.stride.token + head * p.stride.head;
        const uint4 codes = kit::load(reinterpret_cast<const uint4*>(row + first_column + column));
        memcpy(rows[r], &codes, sizeof(codes));
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        uint32_t to[4];
        transpose_codes(to, {rows[0][i], rows[1][i], rows[2][i], rows[3][i]});
#pragma unroll
        for (int c = 0; c < 4; ++c) shared.words[column + 4 * i + c][word] = to[c];
    }
    __syncthreads();
    const int end = min(kTransposeColumns, p.columns - first_column);
    for (int c = warp; c < end; c += kTransposeThreads / 32) {
        const std::int64_t line = static_cast<std::int64_t>(all_heads) * p.columns + first_column + c;
        kit::store(reinterpret_cast<uint32_t*>(p.to + line * p.padded + tile) + lane, shared.words[c][lane]);
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
