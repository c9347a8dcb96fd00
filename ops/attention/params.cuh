// Attention: what a launch and a block of it know.
#pragma once

#include "kit/ptx/approximate.cuh"
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
    int rows, row_blocks, q_tokens, kv_tokens, kv_heads, group, head_dim;
    int block_rows, row_warps, groups, splits, slots;
    float scale_log2;                                       // factor of the scores * log2(e)
    bool causal, vector_q, vector_k, vector_v, vector_out;  // vector: 16-byte aligned rows of whole chunks
    float *partial,
        *partial_lse;  // splits > 1: [split, row of all heads, head_dim] and [split, row of all heads]
    // Of kernels with options alone. Where scores are capped, scale_log2 is the factor of what cap_scores leaves.
    int window_left, window_right;   // attention::Window
    const std::int32_t* key_limits;  // or null: [batch, q_tokens]
    std::int64_t limits_stride;
    const float* sinks;  // or null: [q_heads]
    float cap_factor;    // exp2 of a score times this is exp(2 score / softcap)
    bool capped;
};

constexpr float kAttentionSlack =
    8;  // log2: the maximum in use may lag behind by this before outputs are rescaled

__device__ __forceinline__ float minus_infinity() { return __int_as_float(static_cast<int>(0xff800000u)); }

// Weight of scores taken relative to maximum m, seen from maximum top.
__device__ __forceinline__ float maximum_shift(float m, float top, float scale_log2) {
    return m == minus_infinity() ? 0.0f : kit::exp2_approximate((m - top) * scale_log2);
}

// What a row sees of the keys: [first, end), as far as positions, lengths and limits go.
struct KeyRange {
    int first, end;
};

// What a block works on.
struct AttentionBlock {
    int split, row_block, kv_head, batch, keys;  // keys: that exist

    // Reads no memory, so that it may come before the wait for the kernels before; lengths are read after it.
    __device__ explicit AttentionBlock(const AttentionParams& p) : keys(p.kv_tokens) {
        unsigned index = blockIdx.x;
        split = static_cast<int>(index % static_cast<unsigned>(p.splits));
        index /= static_cast<unsigned>(p.splits);
        row_block = static_cast<int>(index % static_cast<unsigned>(p.row_blocks));
        if (p.causal) row_block = p.row_blocks - 1 - row_block;  // the longest first
        index /= static_cast<unsigned>(p.row_blocks);
        kv_head = static_cast<int>(index % static_cast<unsigned>(p.kv_heads));
        batch = static_cast<int>(index / static_cast<unsigned>(p.kv_heads));
    }
    __device__ void read_length(const AttentionParams& p) {
        if (p.kv_lengths != nullptr) keys = min(max(p.kv_lengths[batch], 0), p.kv_tokens);
    }
    // Keys that a row sees, as far as the diagonal and the length go.
    __device__ int limit(const AttentionParams& p, int row) const {
        return p.causal ? min(keys, keys - p.q_tokens + 1 + min(row, p.rows - 1) / p.group) : keys;
    }
    // What a row sees, with options.
    __device__ KeyRange seen(const AttentionParams& p, int row) const {
        const int token = min(row, p.rows - 1) / p.group, position = keys - p.q_tokens + token;
        int end = min(keys, position + p.window_right + 1);
        if (p.key_limits != nullptr) end = min(end, p.key_limits[batch * p.limits_stride + token]);
        return {max(position - p.window_left, 0), end};
    }
    // Element offset of a row's first column.
    __device__ std::int64_t row_offset(const AttentionParams& p, const AttentionStrides& stride,
                                       int row) const {
        return batch * stride.batch + row / p.group * stride.token +
               (static_cast<std::int64_t>(kv_head) * p.group + row % p.group) * stride.head;
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
        return {0, row < p.rows ? block.limit(p, row + rows - 1) : 0, 0, block.limit(p, row)};
    } else {
        const auto both = [](const KeyBounds& a, const KeyBounds& b) -> KeyBounds {
            return {min(a.first, b.first), max(a.end, b.end), max(a.all_first, b.all_first),
                    min(a.all_end, b.all_end)};
        };
        KeyBounds found = {p.kv_tokens, 0, 0, p.kv_tokens};
        for (int i = static_cast<int>(threadIdx.x % 32); i < rows && row + i < p.rows; i += 32) {
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

// Maximum and sum of a row that has seen nothing but its sink, which counts like a key whose value is zero. One of a
// row's four lanes has its weight: 1, but for the rounding of m.
__device__ __forceinline__ void begin_at_sink(float& m, float& l, const AttentionParams& p,
                                              const AttentionBlock& block, int row) {
    const float sink = p.sinks[block.kv_head * p.group + row % p.group] * 1.44269504088896341f;
    m = sink / p.scale_log2;
    if (threadIdx.x % 4 == 0)
        l = kit::exp2_approximate(sink - (m == minus_infinity() ? 0.0f : m * p.scale_log2));
}

// A score becomes tanh(scale s / softcap) = 1 - 2 / (1 + exp(2 scale s / softcap)). tanh.approx has 11 bits, too few for
// what an exponential multiplies by 50: this form is off by 5 * 2^-23 at most (tolerance.h counts it up).
__device__ __forceinline__ float cap_score(float s, float cap_factor) {
    return fmaf(-2.0f, kit::reciprocal_approximate(1.0f + kit::exp2_approximate(s * cap_factor)), 1.0f);
}

// The offsets of every `step`-th row from `row` on. A division a row, one after the other, would cost more than the
// rows' way from memory.
class AttentionRows {
   public:
    __device__ AttentionRows(const AttentionParams& p, const AttentionBlock& block,
                             const AttentionStrides& stride, int row, int step)
        : group_(p.group),
          head_(row % p.group),
          head_step_(step % p.group),
          offset_(block.row_offset(p, stride, row)),
          advance_(step / p.group * stride.token + head_step_ * stride.head),
          wrap_(stride.token - p.group * stride.head) {}
    __device__ std::int64_t offset() const { return offset_; }
    __device__ void next() {
        head_ += head_step_;
        offset_ += advance_;
        if (head_ < group_) return;
        head_ -= group_;
        offset_ += wrap_;
    }

   private:
    int group_, head_, head_step_;
    std::int64_t offset_, advance_, wrap_;
};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
