// Attention: which packed sequence a block of rows is of.
#pragma once

#include "kit/ptx/shuffle.cuh"
#include "ops/attention/params.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// Blocks of rows are launched before anyone knows how long a sequence is: of packed sequences each has the places from
// first_place on, which are its rows' blocks and at most one more. Their number follows from that of all rows.
__device__ __forceinline__ int first_place(const AttentionParams& p, int sequence) {
    const int token = min(max(p.cu_seqlens_q[sequence], 0), p.q_tokens);
    return static_cast<int>(p.by_block_rows.quotient(static_cast<unsigned>(token * p.group))) + sequence;
}

// The last sequence whose first place is not behind `place`. A whole warp asks: each round its lanes look at 32.
__device__ __forceinline__ int sequence_at(const AttentionParams& p, int place) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    int first = 0, count = p.sequences;
    while (count > 1) {
        const int step = (count + 31) / 32;
        const bool begun = lane * step < count && first_place(p, first + lane * step) <= place;
        const int passed = max(__popc(kit::ballot(begun)) - 1, 0) * step;
        first += passed, count = min(step, count - passed);
    }
    return first;
}

// What two offsets have between them, of `all`, whatever the offsets are.
struct Stretch {
    int first, count;

    __device__ Stretch(const std::int32_t* offsets, int sequence, int all)
        : first(min(max(offsets[sequence], 0), all)),
          count(min(max(offsets[sequence + 1], first), all) - first) {}
};

// Completes a block by what is known of its sequence in memory alone. Nothing that offsets, which no host has seen, may be
// makes it leave the tensors.
__device__ __forceinline__ void read_sequence(AttentionBlock& block, const AttentionParams& p) {
    if (p.cu_seqlens_q == nullptr) return block.read_length(p);
    const int sequence = block.sequence = sequence_at(p, block.row_block);
    block.row_block = max(block.row_block - first_place(p, sequence), 0);
    const Stretch queries(p.cu_seqlens_q, sequence, p.q_tokens);
    block.first_query = queries.first, block.q_tokens = queries.count;
    block.rows = queries.count * p.group;
    if (p.cu_seqlens_k != nullptr) {
        const Stretch keys(p.cu_seqlens_k, sequence, p.kv_tokens);
        block.first_key = keys.first, block.keys = keys.count;
    }
    if (p.kv_lengths != nullptr) block.keys = min(max(p.kv_lengths[sequence], 0), block.keys);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
