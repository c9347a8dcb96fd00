// Attention: what a launch and a block of it know.
#pragma once

#include "kit/ptx/approximate.cuh"
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
};

constexpr float kAttentionSlack =
    8;  // log2: the maximum in use may lag behind by this before outputs are rescaled

__device__ __forceinline__ float minus_infinity() { return __int_as_float(static_cast<int>(0xff800000u)); }

// Weight of scores taken relative to maximum m, seen from maximum top.
__device__ __forceinline__ float maximum_shift(float m, float top, float scale_log2) {
    return m == minus_infinity() ? 0.0f : kit::exp2_approximate((m - top) * scale_log2);
}

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
    // Element offset of a row's first column.
    __device__ std::int64_t row_offset(const AttentionParams& p, const AttentionStrides& stride,
                                       int row) const {
        return batch * stride.batch + row / p.group * stride.token +
               (static_cast<std::int64_t>(kv_head) * p.group + row % p.group) * stride.head;
    }
};

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
