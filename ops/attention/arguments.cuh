// Attention: what its kernels are told of a call.
#pragma once

#include "kit/vector.cuh"
#include "ops/attention/params.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline AttentionStrides strides(const Tensor& t, int token, int head) {
    return {t.stride[0], t.stride[token], t.stride[head]};
}

// Whole 16-byte chunks at 16-byte addresses, whatever the row?
inline bool vectors(const Tensor& t) { return t.dim(3) % 8 == 0 && kit::rows_aligned(t, 8); }

// But for what a configuration says.
inline AttentionParams parameters(const Attention& op, const attention::Problem& problem, int block_rows,
                                  int splits) {
    AttentionParams p = {};
    p.q = op.q.data, p.k = op.k.data, p.v = op.v.data, p.out = op.out.data;
    p.q_stride = strides(op.q, 1, 2), p.k_stride = strides(op.k, 1, 2);
    p.v_stride = strides(op.v, 1, 2), p.out_stride = strides(op.out, 1, 2);
    if (op.lse) p.lse = op.lse.as<float>(), p.lse_stride = strides(op.lse, 2, 1);
    if (op.kv_lengths) p.kv_lengths = op.kv_lengths.as<std::int32_t>();
    if (op.key_mask) p.key_mask = op.key_mask.as<std::uint8_t>(), p.mask_stride = op.key_mask.stride[0];
    p.rows = static_cast<int>(problem.rows);
    p.block_rows = block_rows;
    p.row_blocks = (p.rows + block_rows - 1) / block_rows;
    p.splits = splits;
    p.q_tokens = static_cast<int>(op.q.dim(1)), p.kv_tokens = static_cast<int>(op.k.dim(1));
    p.kv_heads = static_cast<int>(op.k.dim(2)), p.group = static_cast<int>(op.q.dim(2) / op.k.dim(2));
    p.head_dim = static_cast<int>(op.q.dim(3));
    p.scale_log2 = op.softmax_scale() * 1.44269504088896341f;
    p.causal = op.causal;
    p.vector_q = vectors(op.q), p.vector_k = vectors(op.k), p.vector_v = vectors(op.v),
    p.vector_out = vectors(op.out);
    return p;
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
