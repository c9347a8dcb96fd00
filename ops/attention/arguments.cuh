// Attention: what its kernels are told of a call.
#pragma once

#include <algorithm>
#include <limits>

#include "kit/tensor_map.h"
#include "kit/vector.cuh"
#include "ops/attention/codes.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline AttentionStrides strides(const Tensor& t, int token, int head) {
    return {t.stride[0], t.stride[token], t.stride[head]};
}

// Whole 16-byte chunks at 16-byte addresses, whatever the row?
inline bool vectors(const Tensor& t) {
    const int elements = 128 / bits(t.dtype);
    return t.dim(3) % elements == 0 && kit::rows_aligned(t, elements);
}

inline void set_options(AttentionParams& p, const Attention& op, const attention::Window& window) {
    constexpr double kLog2E = 1.44269504088896341;
    p.window_left = static_cast<int>(window.left), p.window_right = static_cast<int>(window.right);
    if (op.key_limits)
        p.key_limits = op.key_limits.as<std::int32_t>(), p.limits_stride = op.key_limits.stride[0];
    if (op.sinks) p.sinks = op.sinks.as<float>();
    p.capped = op.softcap > 0;
    p.scale_log2 = (p.capped ? op.softcap : op.softmax_scale()) * static_cast<float>(kLog2E);
    if (p.capped) {  // finite, so that a score of zero stays zero
        p.cap_factor = static_cast<float>(std::min<double>(2 * kLog2E * op.softmax_scale() / op.softcap,
                                                           std::numeric_limits<float>::max()));
    }
}

// Of so many key heads the longest rows come first.
inline void set_near_heads(AttentionParams& p, int near_heads) {
    const int last = p.heads % near_heads;  // 0: all are alike
    p.near_heads = near_heads;
    p.by_near_blocks = kit::Divisor::of(std::int64_t{p.row_blocks} * near_heads);
    p.by_near_heads = kit::Divisor::of(near_heads), p.by_last_heads = kit::Divisor::of(last);
}

inline void set_places(AttentionParams& p, const Attention& op, const attention::Extent& extent) {
    p.sequences = static_cast<int>(extent.sequences);
    p.kv_tokens = static_cast<int>(extent.keys);
    if (op.block_table) {
        p.block_table = op.block_table.as<std::int32_t>(), p.table_stride = op.block_table.stride[0];
        p.pages = static_cast<int>(op.k.dim(0)), p.page_size = static_cast<int>(op.k.dim(1));
        p.by_page_size = kit::Divisor::of(p.page_size);
    }
    if (op.cu_seqlens_q) {
        p.cu_seqlens_q = op.cu_seqlens_q.as<std::int32_t>();
        p.row_blocks = p.rows / p.block_rows + p.sequences;  // places: first_place of one sequence more
        p.by_block_rows = kit::Divisor::of(p.block_rows);
    }
    if (op.cu_seqlens_k) p.cu_seqlens_k = op.cu_seqlens_k.as<std::int32_t>();
}

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
    p.q_tokens = static_cast<int>(op.q.dim(1));
    p.kv_heads = static_cast<int>(op.k.dim(2)), p.group = static_cast<int>(op.q.dim(2) / op.k.dim(2));
    p.rows = p.q_tokens * p.group;
    p.heads = static_cast<int>(op.q.dim(0)) * p.kv_heads;
    p.block_rows = block_rows;
    p.row_blocks = (p.rows + block_rows - 1) / block_rows;
    p.splits = splits;
    set_places(p, op, attention::Extent(op));
    p.head_dim = static_cast<int>(op.q.dim(3)), p.v_dim = static_cast<int>(op.v.dim(3));
    p.by_group = kit::Divisor::of(p.group), p.by_splits = kit::Divisor::of(p.splits);
    p.by_row_blocks = kit::Divisor::of(p.row_blocks), p.by_kv_heads = kit::Divisor::of(p.kv_heads);
    set_near_heads(p, op.cu_seqlens_q ? p.kv_heads : 1);
    p.causal = problem.window.right == 0;
    set_options(p, op, problem.window);
    p.vector_q = vectors(op.q), p.vector_k = vectors(op.k), p.vector_v = vectors(op.v),
    p.vector_out = vectors(op.out);
    return p;
}

inline AttentionCodes codes_of(const Attention& op) {
    AttentionCodes codes = {};
    const auto set = [](const float*& at, int& step, const Tensor& scale) {
        if (scale) at = scale.as<float>(), step = static_cast<int>(scale.stride[0]);
    };
    set(codes.q_scale, codes.q_scale_step, op.q_scale);
    set(codes.k_scale, codes.k_scale_step, op.k_scale);
    set(codes.v_scale, codes.v_scale_step, op.v_scale);
    codes.queries = is_fp8(op.q.dtype), codes.e5m2 = op.k.dtype == DType::fp8_e5m2;
    codes.bf16 = op.out.dtype == DType::bf16;
    return codes;
}

// Boxes of 128 bytes of columns by some heads of some tokens, which so many blocks read.
inline kit::TensorMap box_map(const Tensor& t, int heads, int tokens, int readers) {
    const int bytes = bits(t.dtype) / 8;
    kit::TensorLayout layout{.data = t.data,
                             .element_bytes = bytes,
                             .axes = 4,
                             .swizzle = kit::Swizzle::bytes128,
                             .fetch = kit::fetch_for(readers)};
    const int axes[] = {3, 2, 1, 0};
    const int box[] = {128 / bytes, heads, tokens, 1};
    for (int i = 0; i < 4; ++i) {
        const auto size = static_cast<std::uint64_t>(t.dim(axes[i]));
        layout.size[i] = size;
        // One element is never stepped over, whatever its stride.
        layout.stride[i] = size > 1 ? static_cast<std::uint64_t>(bytes * t.stride[axes[i]]) : 16;
        layout.box[i] = static_cast<std::uint32_t>(box[i]);
    }
    return kit::tensor_map("attention", layout);
}

// The results of splits, before they are merged, in fp32.
inline std::size_t partial_bytes(const AttentionParams& p) {
    return sizeof(float) * static_cast<std::size_t>(p.splits) * static_cast<std::size_t>(p.heads) *
           static_cast<std::size_t>(p.rows) * static_cast<std::size_t>(p.v_dim + 1);
}
inline void set_partials(AttentionParams& p, void* memory) {
    p.partial = static_cast<float*>(memory);
    p.partial_lse = p.partial + static_cast<std::int64_t>(p.splits) * p.heads * p.rows * p.v_dim;
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
