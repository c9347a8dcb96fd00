// Attention: softmax(scale · q·kᵀ) · v for any number of query heads a key head.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "weft/contract.h"

namespace weft {

// For every batch b, query token i and query head h, with g = h / (q_heads / kv_heads):
//
//   x[j]   = scale · Σ_d q[b,i,h,d] · k[b,j,g,d]     over the keys j that the query sees
//   out    = Σ_j exp(x[j] − max x) · v[b,j,g,:] / Σ_j exp(x[j] − max x)
//   lse    = max x + ln Σ_j exp(x[j] − max x)
//
// A query sees key j if j < kv_lengths[b] (clamped to [0, kv_tokens]; kv_tokens where absent), key_mask[b,j]
// ≠ 0 (where present), and, if `causal`, j ≤ i + kv_lengths[b] − q_tokens: the last query stands at the last
// key (bottom-right). key_mask does not move that diagonal. A query that sees no key gives zeros and lse −∞.
struct Attention {
    static constexpr std::string_view kName = "attention";

    Tensor q{}, k{}, v{}, kv_lengths{}, key_mask{}, out{}, lse{};
    float scale = 0;  // 0: 1/sqrt(head_dim)
    bool causal = false;

    // The factor of the scores, in fp32 as every implementation uses it.
    float softmax_scale() const {
        return scale > 0 ? scale : static_cast<float>(1.0 / std::sqrt(static_cast<double>(q.dim(3))));
    }
    static const Contract& contract();
};

namespace attention {

inline std::optional<Violation> heads_divide(const Attention& op) {
    const std::int64_t q_heads = op.q.dim(2), kv_heads = op.k.dim(2);
    if (kv_heads > 0 ? q_heads % kv_heads == 0 : q_heads == 0) return std::nullopt;
    return Violation{"q", "expected q_heads to be a multiple of kv_heads=" + std::to_string(kv_heads) +
                              ", got " + std::to_string(q_heads)};
}

inline std::optional<Violation> head_dim_in_range(const Attention& op) {
    if (op.q.dim(3) >= 1 && op.q.dim(3) <= 256) return std::nullopt;
    return Violation{"q", "expected head_dim in [1, 256], got " + std::to_string(op.q.dim(3))};
}

inline std::optional<Violation> scale_is_normal(const Attention& op) {
    if (op.scale == 0 || std::isnormal(op.scale)) return std::nullopt;
    return Violation{"scale", "expected 0 or a normal number, got a subnormal one"};
}

// Two matrix products over the pairs that the causal mask alone leaves.
inline double flops(const Attention& op) {
    const auto queries = static_cast<double>(op.q.dim(1)), keys = static_cast<double>(op.k.dim(1));
    double pairs = queries * keys;
    if (op.causal) {
        const double sees = std::min(queries, keys);  // queries with any key; the last of them sees all keys
        pairs = sees * keys - sees * (sees - 1) / 2;
    }
    return 4 * pairs * static_cast<double>(op.q.dim(0) * op.q.dim(2) * op.q.dim(3));
}

}  // namespace attention

inline const Contract& Attention::contract() {
    static const Contract contract =
        Describe<Attention>(std::string(kName),
                            "out = softmax(scale * q k^T, over the keys that a query sees) v")
            .in("q", &Attention::q, "batch q_tokens kv_heads*group head_dim", kFloat, "queries")
            .layout(Layout::inner)
            .in("k", &Attention::k, "batch kv_tokens kv_heads head_dim", kFloat,
                "keys; each key head serves `group` consecutive query heads")
            .like("q")
            .layout(Layout::inner)
            .in("v", &Attention::v, "batch kv_tokens kv_heads head_dim", kFloat,
                "values; a value that is not finite may reach rows from which only `causal` hides its key")
            .like("q")
            .layout(Layout::inner)
            .fill(Fill::uniform(-2, 2))
            .in("kv_lengths", &Attention::kv_lengths, "batch", DType::int32,
                "keys that exist, from the first; clamped to [0, kv_tokens]; `causal` aligns to them")
            .optional()
            .fill(Fill::uniform(-1, 200))
            .in("key_mask", &Attention::key_mask, "batch kv_tokens", DType::uint8,
                "0 hides a key from every query")
            .optional()
            .layout(Layout::inner)
            .fill(Fill::mask())
            .out("out", &Attention::out, "batch q_tokens kv_heads*group head_dim", kFloat,
                 "zeros where no key is seen")
            .like("q")
            .layout(Layout::inner)
            .out("lse", &Attention::lse, "batch kv_heads*group q_tokens", DType::fp32,
                 "natural logarithm of the sum of exp(x); -inf where no key is seen")
            .optional()
            .layout(Layout::inner)
            .option("scale", &Attention::scale, 0, 1e6, "factor of the scores; 0 means 1/sqrt(head_dim)",
                    {0, 0.1, 1})
            .option("causal", &Attention::causal, "hide the keys after a query, aligned bottom-right")
            .require(attention::heads_divide)
            .require(attention::head_dim_in_range)
            .require(attention::scale_is_normal)
            .flops(attention::flops, &Attention::q)
            .sizes("batch", {1, 1, 2, 3})
            .sizes("q_tokens", {1, 2, 5, 10, 16, 17, 33, 64, 70})
            .sizes("kv_tokens", {0, 1, 2, 9, 16, 33, 63, 64, 65, 100, 130, 200})
            .sizes("kv_heads", {1, 1, 2, 3})
            .sizes("group", {1, 1, 2, 3, 8})
            .sizes("head_dim", {1, 2, 8, 16, 20, 33, 40, 64, 72, 80, 96, 128, 200, 256})
            .independent({"batch", "kv_heads"})
            .tolerance(
                "16-bit: the weights p of a row are rounded to the input's dtype before the product with v, "
                "so half an ulp of p is allowed beside fp32 error: |out - ref| <= 1/2 ulp(out) + "
                "sum_j w_j (e^(d_j) A - 1 + h) |v_j| with w the exact weights, "
                "d_j = eps32 ((head_dim/4 + 16) scale sum_d |q_d k_jd| + 4 |x_j - max x| + 2 |max x| + 8) "
                "the error of a score, A = 1/sum_j w_j e^(-d_j) the error of the sum, and "
                "h = half an ulp of the dtype + eps32 (kv_tokens/4 + 32); fp32: the same without the "
                "rounding of p")
            .source(
                "FlashAttention-2 (arXiv:2307.08691) and online softmax (arXiv:1805.02867); replaces "
                "scaled_dot_product_attention with full, causal and key-padding masks, MHA, GQA and MQA");
    return contract;
}

}  // namespace weft
