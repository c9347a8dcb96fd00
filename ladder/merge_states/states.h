// What the rungs of this topic share: which calls they take, and how much each state counts.
#pragma once

#include "ladder/row.cuh"
#include "ops/merge_attention_states/merge_attention_states.h"

namespace weft::inline WEFT_TARGET {

inline const char* decline_merge(const MergeAttentionStates& op, DType dtype, int width) {
    for (const Tensor* t : {&op.a, &op.b, &op.out}) {
        if (!is_dense(*t, dtype)) return "takes dense tensors of its one dtype";
        if (!starts_aligned(*t, 16)) return "takes tensors that start at a multiple of 16 bytes";
    }
    if (!op.lse_a.is_dense() || !op.lse_b.is_dense()) return "takes dense log-sum-exps";
    if (op.lse && !op.lse.is_dense()) return "takes dense log-sum-exps";
    return op.a.dim(-1) % width == 0 ? nullptr : "takes heads of whole vectors";
}

template <class T>
struct MergeParams {
    const T *a, *b;
    const float *lse_a, *lse_b;
    T* out;
    float* lse;  // null: not wanted
    std::int64_t tokens, heads, head_dim, elements;
};

struct Shares {
    float a, b, lse;
};

// Of the head that element `i` belongs to; its log-sum-exps lie head by head, not token by token. A state without keys
// (-infinity, or the +infinity that some kernels leave) has no share, and two such give none to either.
template <class T>
__device__ __forceinline__ Shares shares_of(const MergeParams<T>& p, std::int64_t i, bool writes_lse) {
    const std::int64_t row = i / p.head_dim, head = row % p.heads, token = row / p.heads % p.tokens;
    const std::int64_t at = (row / p.heads / p.tokens * p.heads + head) * p.tokens + token;
    const float a = p.lse_a[at] == INFINITY ? -INFINITY : p.lse_a[at];
    const float b = p.lse_b[at] == INFINITY ? -INFINITY : p.lse_b[at];
    const float max = Larger{}(a, b), shift = max == -INFINITY ? 0.0f : max;
    const float wa = expf(a - shift), wb = expf(b - shift), sum = wa + wb;
    const float lse = max == -INFINITY ? -INFINITY : max + logf(sum);
    if (writes_lse && p.lse != nullptr) p.lse[at] = lse;
    const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
    return {a == -INFINITY ? 0.0f : wa * inverse, b == -INFINITY ? 0.0f : wb * inverse, lse};
}

// A share of 0 takes nothing of a value that may be NaN.
__device__ __forceinline__ float mixed(const Shares& s, float a, float b) {
    return (s.a == 0.0f ? 0.0f : s.a * a) + (s.b == 0.0f ? 0.0f : s.b * b);
}

// A thread for `width` elements of one head.
template <class T>
void launch_merge(const char* name, void (*kernel)(MergeParams<T>), int width, const MergeAttentionStates& op,
                  Context& context) {
    const MergeParams<T> p{.a = op.a.as<const T>(),
                           .b = op.b.as<const T>(),
                           .lse_a = op.lse_a.as<const float>(),
                           .lse_b = op.lse_b.as<const float>(),
                           .out = op.out.as<T>(),
                           .lse = op.lse ? op.lse.as<float>() : nullptr,
                           .tokens = op.a.dim(1),
                           .heads = op.a.dim(2),
                           .head_dim = op.a.dim(3),
                           .elements = op.a.numel()};
    kit::launch(name, kernel, {.grid = blocks_for(p.elements / width, 256), .block = 256}, context.stream(),
                p);
}

}  // namespace weft::inline WEFT_TARGET
