// Attention: softmax(scale · q·kᵀ) · v for any number of query heads a key head, windowed, capped and with sinks, over
// keys in one piece, in pages of a cache, or of sequences that are packed one behind the other.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "weft/contract.h"

namespace weft {

// For every batch b, query token i and query head h, with g = h / (q_heads / kv_heads):
//
//   x[j]   = cap(scale · q_scale[g] · k_scale[g] · Σ_d q[b,i,h,d] · k[b,j,g,d])   over the keys j that the query sees
//   z      = Σ_j exp(x[j] − m) + exp(sinks[h] − m)         m = max(max x, sinks[h]); without sinks no such terms
//   out    = v_scale[g] · Σ_j exp(x[j] − m) · v[b,j,g,:] / z
//   lse    = m + ln z
//
// A value may have another size, v_dim, than a key's head_dim: 128 beside 192 (DeepSeek's prefill), 512 beside 576 (its
// latent cache, where v is a view of k's first columns).
//
// k and v may be fp8 beside 16-bit queries (a narrow cache), or all three; q_scale, k_scale and v_scale are what the
// stored fp8 of a key head is multiplied by. out is of 16 bits then.
//
// With fp8_weights, of q, k and v in fp8, the weights exp(x[j] − m) may be rounded to e4m3 before they multiply values, and
// both products may be summed as tensor cores sum those of fp8, as in FlashAttention 3's fp8 forward.
//
// cap(x) = softcap · tanh(x / softcap), or x where softcap is 0 (Gemma 2). A sink is one more logit of the softmax, which
// has no value (gpt-oss).
//
// With block_table, k and v are caches in pages: key j of batch b is row j mod page_size of page block_table[b, j /
// page_size]. Entries for keys that do not exist are not read. -1, and on a device any number that is no page, stands for
// a page of zeros.
//
// With cu_seqlens_q, "batch" above is a sequence: the queries [cu_seqlens_q[s], cu_seqlens_q[s + 1]) of q's one batch, over
// the keys [cu_seqlens_k[s], cu_seqlens_k[s + 1]) of k's one batch, over those of its pages, or, with neither, all over the
// same keys. i and j count from a sequence's first.
//
// Of n = kv_lengths[b] keys (clamped to [0, kv_tokens], with pages to those that a row of block_table holds, with
// cu_seqlens_k to the sequence's; so many where absent), query i stands at position i + n −
// q_tokens: the last query at the last key (bottom-right, as in FlashAttention 2). It sees key j if
//
//   0 ≤ j < n,   position − window_left ≤ j ≤ position + window_right      (a window of −1 is unlimited)
//   j < key_limits[b,i]                                                    (where present)
//   key_mask[b,j] ≠ 0                                                      (where present)
//
// `causal` is window_right = 0; beside a wider window_right it stands. key_mask and key_limits move no position. A query
// that sees no key gives zeros and lse −∞, or its sink.
struct Attention {
    static constexpr std::string_view kName = "attention";

    Tensor q{}, k{}, v{}, kv_lengths{}, key_mask{}, key_limits{}, sinks{}, out{}, lse{};
    Tensor block_table{}, cu_seqlens_q{}, cu_seqlens_k{}, q_scale{}, k_scale{}, v_scale{};
    float scale = 0;    // 0: 1/sqrt(head_dim)
    float softcap = 0;  // 0: none
    bool causal = false;
    std::int64_t window_left = -1, window_right = -1;
    bool fp8_weights = false;

    static constexpr std::int64_t kWidest = std::int64_t{1} << 40;  // that a window may be
    static constexpr std::int64_t kMostDim = 1024;                  // that head_dim and v_dim may be

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

inline std::optional<Violation> head_dims_in_range(const Attention& op) {
    for (const auto& [field, axis, t] :
         {std::tuple{"q", "head_dim", &op.q}, std::tuple{"v", "v_dim", &op.v}}) {
        if (t->dim(3) >= 1 && t->dim(3) <= Attention::kMostDim) continue;
        return Violation{field, "expected " + std::string(axis) + " in [1, " +
                                    std::to_string(Attention::kMostDim) + "], got " +
                                    std::to_string(t->dim(3))};
    }
    return std::nullopt;
}

inline std::optional<Violation> scale_is_normal(const Attention& op) {
    if (op.scale == 0 || std::isnormal(op.scale)) return std::nullopt;
    return Violation{"scale", "expected 0 or a normal number, got a subnormal one"};
}

inline std::optional<Violation> fp8_weights_beside_fp8(const Attention& op) {
    if (!op.fp8_weights || is_fp8(op.q.dtype)) return std::nullopt;
    return Violation{"fp8_weights", "expected false unless q, k and v are fp8, got true beside q in " +
                                        std::string(name(op.q.dtype))};
}

inline std::optional<Violation> softcap_is_normal(const Attention& op) {
    if (op.softcap == 0 || std::isnormal(op.softcap)) return std::nullopt;
    return Violation{"softcap", "expected 0 or a normal number, got a subnormal one"};
}

inline std::optional<Violation> sequences_are_of_one_batch(const Attention& op) {
    if (!op.cu_seqlens_q) return std::nullopt;
    if (op.cu_seqlens_q.dim(0) == 0)
        return Violation{"cu_seqlens_q", "expected at least one offset, got none"};
    if (op.q.dim(0) == 1) return std::nullopt;
    return Violation{"q", "expected a batch of 1 beside cu_seqlens_q, got " + std::to_string(op.q.dim(0))};
}

// What a call comes to at most, whatever holds the keys: so many sequences, of so many queries and keys.
struct Extent {
    std::int64_t sequences, queries, keys;

    explicit Extent(const Attention& op)
        : sequences(op.cu_seqlens_q ? op.cu_seqlens_q.dim(0) - 1 : op.q.dim(0)),
          queries(op.q.dim(1)),
          keys(op.k.dim(1)) {
        if (!op.block_table) return;
        const std::int64_t pages = op.block_table.dim(1);
        keys = pages > 0 && keys > Attention::kWidest / pages ? Attention::kWidest : keys * pages;
    }
};

// How many keys before and after its own position a query sees. A window that reaches over all keys of any length, for
// every query, is none.
struct Window {
    static constexpr std::int64_t kUnlimited = std::numeric_limits<std::int32_t>::max() / 2;
    std::int64_t left = kUnlimited, right = kUnlimited;

    Window() = default;
    explicit Window(const Attention& op) {
        if (op.window_left >= 0 && op.window_left < Extent(op).keys - 1) left = op.window_left;
        const std::int64_t after = op.causal ? 0 : op.window_right;
        if (after >= 0 && after < op.q.dim(1) - 1) right = after;
    }
    friend bool operator==(const Window&, const Window&) = default;
};

// Two matrix products over the pairs that causality and windows alone leave, where all keys exist.
inline double flops(const Attention& op) {
    const auto [sequences, queries, keys] = Extent(op);
    const Window window(op);
    const double per_pair = 2 * static_cast<double>(op.q.dim(0) * op.q.dim(2) * (op.q.dim(3) + op.v.dim(3)));
    if (op.cu_seqlens_q) {  // at most: each query the last of a sequence that has as many keys as one may
        const std::int64_t seen = std::min(keys, window.left + window.right + 1);
        return per_pair * static_cast<double>(queries) * static_cast<double>(seen);
    }
    // Pairs of a query and a key that lies at most `distance` beyond its position. The last query stands at the last
    // key, and each before it has one key fewer: the last `whole` have all, the `some` before them not.
    const auto up_to = [&](std::int64_t distance) {
        const std::int64_t whole = std::clamp<std::int64_t>(distance + 1, 0, queries);
        const std::int64_t most = keys + distance - whole;
        const std::int64_t some = std::clamp<std::int64_t>(most, 0, queries - whole);
        const auto rows = static_cast<double>(some);
        return static_cast<double>(whole) * static_cast<double>(keys) + rows * static_cast<double>(most) -
               rows * (rows - 1) / 2;
    };
    return per_pair * (up_to(window.right) - up_to(-window.left - 1));
}

// What that takes at most: keys which lie before every query's window are not read, and how much lengths, limits and masks
// hide is known where they lie.
inline Work work(const Attention& op) {
    const auto [sequences, queries, keys] = Extent(op);
    const Window window(op);
    const std::int64_t first = keys - queries;  // query's position
    const std::int64_t before = op.cu_seqlens_q ? 0
                                : queries == 0  ? keys
                                                : std::clamp<std::int64_t>(first - window.left, 0, keys);
    double seen = keys == 0 ? 0 : static_cast<double>(keys - before) / static_cast<double>(keys);
    if (op.block_table) {  // of a cache no more than its pages
        const auto held = static_cast<double>(op.k.dim(0)) * static_cast<double>(op.k.dim(1));
        const double named = seen * static_cast<double>(sequences) * static_cast<double>(keys);
        seen = held == 0 ? 0 : std::min(1.0, named / held);
    }
    Work work{.flops = flops(op), .math = op.q.dtype};
    for (const Tensor* t :
         {&op.q, &op.k, &op.v, &op.kv_lengths, &op.key_mask, &op.key_limits, &op.sinks, &op.block_table,
          &op.cu_seqlens_q, &op.cu_seqlens_k, &op.q_scale, &op.k_scale, &op.v_scale, &op.out, &op.lse}) {
        const auto bytes = *t ? static_cast<double>(weft::bytes(t->dtype, t->distinct())) : 0;
        work.bytes += t == &op.k || t == &op.v ? seen * bytes : bytes;
    }
    work.at_most = op.kv_lengths || op.key_mask || op.key_limits || op.cu_seqlens_q;
    return work;
}

// The contract's parts: what takes part in a query's softmax, and from where to where it sees.
inline void describe_seen(Describe<Attention>& describe) {
    describe
        .in("kv_lengths", &Attention::kv_lengths, "batch", DType::int32,
            "keys that exist, from the first; clamped to [0, kv_tokens], with pages to what a row of "
            "block_table holds, with cu_seqlens_k to the sequence's; `causal` and windows align to them; "
            "beside cu_seqlens_q one a sequence")
        .optional()
        .picked_by("cu_seqlens_q", "sequences")
        .fill(Fill::lengths("kv_tokens+max_pages*page_size"))
        .in("key_mask", &Attention::key_mask, "batch kv_tokens", DType::uint8,
            "0 hides a key from every query")
        .optional()
        .excludes("block_table")
        .excludes("cu_seqlens_q")
        .layout(Layout::inner)
        .fill(Fill::mask())
        .in("key_limits", &Attention::key_limits, "batch q_tokens", DType::int32,
            "a query sees only the keys before its limit; clamped to [0, kv_tokens]; one row may serve "
            "all batches (stride 0)")
        .optional()
        .layout(Layout::inner)
        .fill(Fill::lengths("kv_tokens+max_pages*page_size"))
        .in("sinks", &Attention::sinks, "kv_heads*group", DType::fp32,
            "a further logit of each head's softmax, without a value; neither scaled nor capped")
        .optional();
}

// Where keys and queries lie, if not in one piece a batch.
inline void describe_places(Describe<Attention>& describe) {
    describe
        .in("block_table", &Attention::block_table, "batch max_pages", DType::int32,
            "makes k and v caches in pages: the page of keys [p * page_size, (p + 1) * page_size) of "
            "each batch, beside cu_seqlens_q of each sequence; entries for keys that do not exist are not "
            "read; -1: zeros, as, on a device, all "
            "that is no page")
        .optional()
        .picked_by("cu_seqlens_q", "sequences max_pages")
        .needs("kv_lengths")
        .layout(Layout::inner)
        .fill(Fill::index("pages").or_minus_one().outside_is_defined())
        .in("cu_seqlens_q", &Attention::cu_seqlens_q, "sequences+1", DType::int32,
            "makes the one batch of q sequences, one behind the other: the first query of each, and the end")
        .optional()
        .fill(Fill::offsets("q_tokens"))
        .in("cu_seqlens_k", &Attention::cu_seqlens_k, "sequences+1", DType::int32,
            "the first key of each sequence, and the end; without it, and without pages, all sequences have "
            "the same keys")
        .optional()
        .needs("cu_seqlens_q")
        .excludes("block_table")
        .fill(Fill::offsets("kv_tokens"));
}

// The dtypes of keys and values beside those of queries.
inline DTypeChoices kept_dtypes() {
    using enum DType;
    return {{fp32, {fp32}},
            {bf16, {bf16, fp8_e4m3, fp8_e5m2}},
            {fp16, {fp16, fp8_e4m3, fp8_e5m2}},
            {fp8_e4m3, {fp8_e4m3}},
            {fp8_e5m2, {fp8_e5m2}}};
}

inline void describe_scales(Describe<Attention>& describe) {
    const auto scale = [&](const std::string& of, Tensor Attention::* member) {
        describe
            .in(of + "_scale", member, "kv_heads", DType::fp32,
                "what " + of +
                    "'s stored values are multiplied by, for each key head; one number for all is a "
                    "view of stride 0")
            .optional()
            .layout(Layout::strided)
            .scale_of(of)
            .fill(Fill::scale());
    };
    scale("q", &Attention::q_scale);
    scale("k", &Attention::k_scale);
    scale("v", &Attention::v_scale);
}

inline void describe_windows(Describe<Attention>& describe) {
    describe
        .option("causal", &Attention::causal,
                "hide the keys after a query, aligned bottom-right: window_right = 0")
        .option("window_left", &Attention::window_left, -1, Attention::kWidest,
                "keys before its position that a query sees; -1: all", {-1, -1, -1, -1, 0, 3, 17, 70})
        .option("window_right", &Attention::window_right, -1, Attention::kWidest,
                "keys after its position that a query sees; -1: all", {-1, -1, -1, -1, 0, 5, 40});
}

inline void describe_sizes(Describe<Attention>& describe) {
    describe.sizes("batch", {1, 1, 2, 3})
        .sizes("q_tokens", {1, 2, 5, 10, 16, 17, 33, 64, 70})
        .sizes("kv_tokens", {0, 1, 2, 9, 16, 33, 63, 64, 65, 100, 130, 200})
        .sizes("sequences", {1, 1, 2, 3, 5, 40})
        .sizes("pages", {1, 2, 5, 30})
        .sizes("max_pages", {0, 1, 2, 4, 9})
        .sizes("page_size", {1, 3, 16, 16, 64, 100})
        .sizes("kv_heads", {1, 1, 2, 3})
        .sizes("group", {1, 1, 2, 3, 8})
        .sizes("head_dim", {1, 2, 8, 16, 20, 33, 40, 64, 72, 80, 96, 128, 192, 200, 256, 320, 576})
        .sizes("v_dim", {1, 8, 30, 64, 128, 130, 256, 512, 600});
}

inline constexpr std::string_view kTolerance =
    "16-bit: the weights p of a row are rounded to the input's dtype before the product with v, so half an "
    "ulp of p "
    "is allowed beside fp32 error: |out - ref| <= 1/2 ulp(out) + sum_j w_j (e^(d_j) A - 1 + h) |v_j| with w "
    "the exact "
    "weights, d_j = eps32 ((head_dim/4 + 16) scale sum_d |q_d k_jd| + 4 |x_j - m| + 2 |m| + 8) the error of "
    "a score, "
    "of which a soft cap passes on of the first term what its tanh does, and adds 10 eps32 softcap of its "
    "own, "
    "A = 1/sum_j w_j e^(-d_j) the error of the sum (a sink is one of its terms, without the first part of "
    "d_j), and "
    "h = half an ulp of the dtype + eps32 (kv_tokens/4 + 32); weights below 2^-25 (fp16, and beside fp8 "
    "keys) "
    "or 2^-118 (bf16) may be "
    "zero; fp32: the same without the rounding of p; fp8 q: p is rounded to out's dtype; fp8_weights: h has "
    "2^-4 in place of that half ulp, weights below 2^-15 of the largest may be zero, and for what tensor "
    "cores "
    "lose of fp8's sums d_j grows by 2^-9 scale sum_d |q_d k_jd| for each 128 columns begun, h by 2^-9";

inline constexpr std::string_view kSource =
    "FlashAttention-2 (arXiv:2307.08691) and online softmax (arXiv:1805.02867); replaces "
    "scaled_dot_product_attention with full, causal and key-padding masks, MHA, GQA and MQA; windows and key "
    "lengths "
    "as flash_attn_func has them, pages (arXiv:2309.06180) and packed sequences as flash_attn_varlen_func "
    "and "
    "flash_attn_with_kvcache; the soft cap of Gemma 2 (arXiv:2408.00118), the sinks of gpt-oss "
    "(arXiv:2508.10925), the blockwise masks of pi0 (arXiv:2410.24164), fp8 with scales of heads as "
    "FlashAttention-3's (arXiv:2407.08608), the latent attention of DeepSeek-V2 (arXiv:2405.04434)";

}  // namespace attention

inline const Contract& Attention::contract() {
    static const Contract contract =
        Describe<Attention>(std::string(kName),
                            "out = softmax(scale * q k^T, over the keys that a query sees) v")
            .in("q", &Attention::q, "batch q_tokens kv_heads*group head_dim", kFloat | kFp8, "queries")
            .layout(Layout::inner)
            .in("k", &Attention::k, "batch kv_tokens kv_heads head_dim", kFloat | kFp8,
                "keys; each key head serves `group` consecutive query heads; beside block_table a cache "
                "[pages page_size kv_heads head_dim]")
            .picked_by("block_table", "pages page_size kv_heads head_dim")
            .dtype_beside("q", attention::kept_dtypes())
            .layout(Layout::inner)
            .in("v", &Attention::v, "batch kv_tokens kv_heads v_dim", kFloat | kFp8,
                "values, as k lies; a value that is not finite may reach rows from which only `causal`, a "
                "window or "
                "key_limits hides its key")
            .picked_by("block_table", "pages page_size kv_heads v_dim")
            .like("k")
            .layout(Layout::inner)
            .fill(Fill::uniform(-2, 2))
            .with(attention::describe_seen)
            .with(attention::describe_places)
            .with(attention::describe_scales)
            .out("out", &Attention::out, "batch q_tokens kv_heads*group v_dim", kFloat,
                 "zeros where no key is seen")
            .dtype_beside("q", {{DType::fp32, {DType::fp32}},
                                {DType::bf16, {DType::bf16}},
                                {DType::fp16, {DType::fp16}},
                                {DType::fp8_e4m3, {DType::bf16, DType::fp16}},
                                {DType::fp8_e5m2, {DType::bf16, DType::fp16}}})
            .layout(Layout::inner)
            .out("lse", &Attention::lse, "batch kv_heads*group q_tokens", DType::fp32,
                 "natural logarithm of the sum of exp(x) and exp(sink); where no key is seen the sink, or "
                 "-inf")
            .optional()
            .layout(Layout::inner)
            .option("scale", &Attention::scale, 0, 1e6, "factor of the scores; 0 means 1/sqrt(head_dim)",
                    {0, 0.1, 1})
            .with(attention::describe_windows)
            .option("softcap", &Attention::softcap, 0, 1e6,
                    "scores become softcap tanh(score / softcap) before masks; 0: none", {0, 0, 0, 1, 50})
            .option("fp8_weights", &Attention::fp8_weights,
                    "q, k and v in fp8: the weights of the softmax may be rounded to e4m3, and products "
                    "summed as "
                    "tensor cores sum fp8, as FlashAttention 3's fp8 forward does (faster, less exact)")
            .require(attention::heads_divide)
            .require(attention::head_dims_in_range)
            .require(attention::sequences_are_of_one_batch)
            .require(attention::scale_is_normal)
            .require(attention::softcap_is_normal)
            .require(attention::fp8_weights_beside_fp8)
            .work(attention::work)
            .with(attention::describe_sizes)
            .independent({"batch", "kv_heads"})
            .tolerance(attention::kTolerance)
            .source(attention::kSource);
    return contract;
}

}  // namespace weft
