// Attention: what a launch and a block of it know.
#pragma once

#include <utility>

#include "kit/divisor.cuh"
#include "kit/ptx/approximate.cuh"
#include "kit/ptx/elect.cuh"
#include "kit/ptx/shuffle.cuh"
#include "kit/reduce.cuh"
#include "kit/target.h"
#include "ops/attention/policy.h"

namespace weft::inline WEFT_TARGET {
namespace {

using attention::kKeys;
using attention::Tile;

struct AttentionStrides {
    std::int64_t batch, token, head;
};

// A row is a query token with one of the `group` query heads of a key head: row = token * group + head in
// group.
struct AttentionParams {
    const void *q, *k, *v;
    void* out;
    float* lse;                      // or null
    const std::int32_t* kv_lengths;  // or null
    const std::uint8_t* key_mask;    // or null
    AttentionStrides q_stride, k_stride, v_stride, out_stride, lse_stride;
    std::int64_t mask_stride;
    int rows, row_blocks, q_tokens, kv_tokens, kv_heads, group, head_dim, v_dim;
    int block_rows, row_warps, groups, splits, slots;
    int heads, near_heads;  // key heads of all batches; of so many the longest rows come first
    unsigned blocks;        // row_blocks * heads * splits
    unsigned dealt_blocks;  // of so many, at a time, each block of the grid gets a like share
    kit::Divisor by_group, by_splits, by_row_blocks, by_kv_heads;
    kit::Divisor by_near_blocks, by_near_heads,
        by_last_heads;  // row_blocks * near_heads; heads of all but the last such, of it
    bool clustered;     // the splits are the blocks of a cluster, which merge themselves
    float scale_log2;   // factor of the scores * log2(e)
    bool causal, vector_q, vector_k, vector_v, vector_out;  // vector: 16-byte aligned rows of whole chunks
    float *partial,
        *partial_lse;  // of splits to be merged: [split, row of all heads, v_dim], [split, row of all heads]
    // Of kernels with options alone. Where scores are capped, scale_log2 is the factor of what cap_scores leaves.
    int window_left, window_right;   // attention::Window
    const std::int32_t* key_limits;  // or null: [batch, q_tokens]
    std::int64_t limits_stride;
    const float* sinks;  // or null: [q_heads]
    float cap_factor;    // exp2 of a score times this is exp(2 score / softcap)
    bool capped;
    // Of a key head, [kv_heads], or null: what its products of queries and keys, and its values, are multiplied by.
    const float *score_factors, *value_factors;
    // Of ragged kernels alone: keys in pages, or sequences that are packed one behind the other.
    const std::int32_t*
        block_table;  // or null: [sequence, max_pages], of caches whose strides' batch is a page
    std::int64_t table_stride;
    int pages, page_size;
    int page_keys;                                    // of Hopper's kernels: keys of a page that a box brings
    const std::int32_t *cu_seqlens_q, *cu_seqlens_k;  // or null
    int sequences;
    bool hides_values;  // of Hopper's kernels: some keys that a tile holds count for nobody
    DType out_dtype;    // of kernels that multiply codes, which are not compiled for each
    kit::Divisor by_page_size, by_block_rows;

    // Of a row.
    __device__ __forceinline__ int token(int row) const {
        return static_cast<int>(by_group.quotient(static_cast<unsigned>(row)));
    }
};

constexpr float kAttentionSlack =
    8;  // log2: the maximum in use may lag behind by this before outputs are rescaled
constexpr float kAttentionMost = 256;  // 2^kAttentionSlack

__device__ __forceinline__ float minus_infinity() { return __int_as_float(static_cast<int>(0xff800000u)); }

// Weight of scores taken relative to maximum m, seen from maximum top.
__device__ __forceinline__ float maximum_shift(float m, float top, float scale_log2) {
    return m == minus_infinity() ? 0.0f : kit::exp2_approximate((m - top) * scale_log2);
}

// What a row sees of the keys: [first, end), as far as positions, lengths and limits go.
struct KeyRange {
    int first, end;
};

// What a block works on, of p.blocks.
struct AttentionBlock {
    unsigned index;
    int split, row_block, kv_head, batch, keys;  // keys: that exist
    int rows, q_tokens;                          // that share them
    int sequence;                                // batch, or which of the packed sequences
    int first_query = 0, first_key = 0;          // of a packed sequence, in its tensors

    // Reads no memory, so that it may come before the wait for the kernels before; lengths are read after it.
    __device__ AttentionBlock(const AttentionParams& p, unsigned which)
        : index(which), keys(p.kv_tokens), rows(p.rows), q_tokens(p.q_tokens) {
        const auto taken = [&which](const kit::Divisor& by) {
            const unsigned all = std::exchange(which, by.quotient(which));
            return static_cast<int>(all - which * by.divisor);
        };
        split = taken(p.by_splits);
        if (p.causal) {  // the longest first, of some heads, whose keys L2 holds meanwhile
            const auto inside = static_cast<unsigned>(taken(p.by_near_blocks));
            const int first = static_cast<int>(which) * p.near_heads;
            const kit::Divisor& heads = first + p.near_heads <= p.heads ? p.by_near_heads : p.by_last_heads;
            const unsigned length = heads.quotient(inside);
            row_block = p.row_blocks - 1 - static_cast<int>(length);
            which = static_cast<unsigned>(first) + inside - length * heads.divisor;
        } else {
            row_block = taken(p.by_row_blocks);
        }
        kv_head = taken(p.by_kv_heads);
        batch = sequence = static_cast<int>(which);
    }
    __device__ void read_length(const AttentionParams& p) {
        if (p.kv_lengths != nullptr) keys = min(max(p.kv_lengths[batch], 0), p.kv_tokens);
    }
    // The same, computed again: what it knows need not stay in registers until then.
    __device__ AttentionBlock again(const AttentionParams& p) const {
        return AttentionBlock(p, static_cast<unsigned>(kit::anew(static_cast<int>(index))));
    }
    // The batch's mask of keys, or null.
    __device__ const std::uint8_t* mask(const AttentionParams& p) const {
        return p.key_mask == nullptr ? nullptr : p.key_mask + batch * p.mask_stride;
    }
    // Keys that a row sees, as far as the diagonal and the length go.
    __device__ int limit(const AttentionParams& p, int row) const {
        return p.causal ? min(keys, keys - q_tokens + 1 + p.token(min(row, rows - 1))) : keys;
    }
    // What a row sees, with options.
    __device__ KeyRange seen(const AttentionParams& p, int row) const {
        const int token = p.token(min(row, rows - 1)), position = keys - q_tokens + token;
        int end = min(keys, position + p.window_right + 1);
        if (p.key_limits != nullptr)
            end = min(end, p.key_limits[batch * p.limits_stride + first_query + token]);
        return {max(position - p.window_left, 0), end};
    }
    // Its first row among the partial results.
    __device__ std::int64_t partial_row(const AttentionParams& p) const {
        return (static_cast<std::int64_t>(split) * p.heads + batch * p.kv_heads + kv_head) * p.rows +
               first_query * p.group;
    }
    // Element offset of its first key, where keys are in one piece.
    __device__ std::int64_t key_offset(const AttentionStrides& stride) const {
        return batch * stride.batch + kv_head * stride.head + first_key * stride.token;
    }
    // Element offset of a row's first column.
    __device__ std::int64_t row_offset(const AttentionParams& p, const AttentionStrides& stride,
                                       int row) const {
        const int token = p.token(row);
        return batch * stride.batch + (first_query + token) * stride.token +
               (static_cast<std::int64_t>(kv_head) * p.group + row - token * p.group) * stride.head;
    }
};

// Of some rows: any of them may see keys of [first, end), and all of them see those of [all_first, all_end).
struct KeyBounds {
    int first, end, all_first, all_end;
};

// Of the rows from `row` on. A whole warp asks.
template <bool kOptions>
__device__ __forceinline__ KeyBounds key_bounds(const AttentionParams& p, const AttentionBlock& block,
                                                int row, int rows) {
    if constexpr (!kOptions) {  // later rows see more
        return {0, row < block.rows ? block.limit(p, row + rows - 1) : 0, 0, block.limit(p, row)};
    } else {
        const auto both = [](const KeyBounds& a, const KeyBounds& b) -> KeyBounds {
            return {min(a.first, b.first), max(a.end, b.end), max(a.all_first, b.all_first),
                    min(a.all_end, b.all_end)};
        };
        KeyBounds found = {p.kv_tokens, 0, 0, p.kv_tokens};
        for (int i = static_cast<int>(threadIdx.x % 32); i < rows && row + i < block.rows; i += 32) {
            const KeyRange seen = block.seen(p, row + i);
            found = both(found, {seen.first, seen.end, seen.first, seen.end});
        }
        return kit::warp_reduce(found, both);
    }
}

// The tiles of `keys` keys that rows may see.
struct TileRange {
    int first, count;
};
__device__ __forceinline__ TileRange tiles_in(const KeyBounds& bounds, int keys) {
    const int first = bounds.first / keys;
    return {first, max(0, (bounds.end > 0 ? (bounds.end + keys - 1) / keys : 0) - first)};
}

// A row that has seen nothing but its sink, which counts like a key whose value is zero: the maximum, and the sink's
// weight, which is 1, but for the rounding of m.
struct SinkState {
    float m, l;
};
__device__ __forceinline__ SinkState sink_of(const AttentionParams& p, const AttentionBlock& block, int row) {
    const float sink = p.sinks[block.kv_head * p.group + row - p.token(row) * p.group] * 1.44269504088896341f;
    const float m = sink / p.scale_log2;
    return {m, kit::exp2_approximate(sink - (m == minus_infinity() ? 0.0f : m * p.scale_log2))};
}
// The same for one of a row's four lanes, which share its sum.
__device__ __forceinline__ void begin_at_sink(float& m, float& l, const AttentionParams& p,
                                              const AttentionBlock& block, int row) {
    const SinkState state = sink_of(p, block, row);
    m = state.m;
    if (threadIdx.x % 4 == 0) l = state.l;
}

// A score becomes tanh(scale s / softcap) = 1 - 2 / (1 + exp(2 scale s / softcap)). tanh.approx has 11 bits, too few for
// what an exponential multiplies by 50: this form is off by 5 * 2^-23 at most (tolerance.h counts it up).
__device__ __forceinline__ float cap_score(float s, float cap_factor) {
    return fmaf(-2.0f, kit::reciprocal_approximate(1.0f + kit::exp2_approximate(s * cap_factor)), 1.0f);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
