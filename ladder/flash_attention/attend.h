// What the rungs of this topic share: which calls they take, what a block works on, and the launch.
#pragma once

#include <cmath>

#include "ladder/rung.h"
#include "ops/attention/attention.h"

namespace weft::inline WEFT_TARGET {

inline const char* decline_attention(const Attention& op, std::int64_t most_head_dim) {
    for (const Tensor* t : {&op.q, &op.k, &op.v, &op.out}) {
        if (!is_dense(*t, DType::fp16)) return "takes dense tensors of halves";
    }
    const bool window = op.window_left >= 0 || op.window_right >= 0;
    if (!has_only(op, {"q", "k", "v", "out"}) || window)
        return "attends to all keys of a batch, or causally, and keeps no lse";
    if (op.softcap > 0) return "takes scores as they are";
    if (op.v.dim(3) != op.q.dim(3)) return "takes values as wide as keys";
    return op.q.dim(3) <= most_head_dim ? nullptr : "takes smaller heads";
}

// Tensors are [batch, tokens, heads, head_dim].
struct Calls {
    const __half *q, *k, *v;
    __half* out;
    std::int64_t q_tokens, kv_tokens, q_heads, kv_heads, tiles;  // tiles: blocks a head
    int head_dim;
    float scale;  // of exponents to base two
    bool causal, whole;
};

// What a block works on: kRows queries of one head, and that head's keys and values.
struct Head {
    const __half *q, *k, *v;
    __half* out;
    std::int64_t first, q_stride, kv_stride;  // the first query; elements from token to token

    __device__ __forceinline__ Head(const Calls& c, int rows) {
        const std::int64_t head = blockIdx.x / c.tiles % c.q_heads, batch = blockIdx.x / c.tiles / c.q_heads;
        first = blockIdx.x % c.tiles * rows;
        q_stride = c.q_heads * c.head_dim, kv_stride = c.kv_heads * c.head_dim;
        const std::int64_t of_q = batch * c.q_tokens * q_stride + head * c.head_dim;
        // Consecutive query heads share a key head.
        const std::int64_t of_kv =
            batch * c.kv_tokens * kv_stride + head / (c.q_heads / c.kv_heads) * c.head_dim;
        q = c.q + of_q, k = c.k + of_kv, v = c.v + of_kv, out = c.out + of_q;
    }
};

// How many keys a query sees: causally the last query sees all.
__device__ __forceinline__ std::int64_t keys_of(const Calls& c, std::int64_t query) {
    if (!c.causal) return c.kv_tokens;
    return min(c.kv_tokens, max(query + 1 + c.kv_tokens - c.q_tokens, std::int64_t{0}));
}

__device__ __forceinline__ float minus_infinity() { return __int_as_float(static_cast<int>(0xff800000u)); }

// What weights that were taken relative to maximum m are worth relative to `top`.
__device__ __forceinline__ float shrink_of(float m, float top, float scale) {
    if (m == top) return 1.0f;
    return m == minus_infinity() ? 0.0f : exp2f((m - top) * scale);
}
// Of a score, relative to the maximum. Where all are minus infinity, so is the maximum, and each weight is 0.
__device__ __forceinline__ float weight_of(float score, float top, float scale) {
    return exp2f(fmaf(score, scale, top == minus_infinity() ? 0.0f : -top * scale));
}

// For blocks that have `rows` queries of a head.
inline Calls calls_of(const Attention& op, int rows) {
    bool whole = op.q.dim(3) % 8 == 0;
    for (const Tensor* t : {&op.q, &op.k, &op.v, &op.out}) whole = whole && starts_aligned(*t, 16);
    return {op.q.as<const __half>(),
            op.k.as<const __half>(),
            op.v.as<const __half>(),
            op.out.as<__half>(),
            op.q.dim(1),
            op.k.dim(1),
            op.q.dim(2),
            op.k.dim(2),
            divide_up(op.q.dim(1), rows),
            static_cast<int>(op.q.dim(3)),
            op.softmax_scale() * 1.44269504088896341f,
            op.causal,
            whole};
}

// A block for `rows` queries of a head.
inline void launch_attention(const char* name, void (*kernel)(Calls), int rows, int threads,
                             const Attention& op, Context& context, std::size_t shared = 0) {
    const Calls calls = calls_of(op, rows);
    const std::int64_t blocks = calls.tiles * op.q.dim(0) * op.q.dim(2);
    kit::launch(name, kernel,
                {.grid = dim3(static_cast<unsigned>(blocks)),
                 .block = dim3(static_cast<unsigned>(threads)),
                 .dynamic_shared = shared},
                context.stream(), calls);
}

}  // namespace weft::inline WEFT_TARGET
