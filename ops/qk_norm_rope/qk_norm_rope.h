// What stands between a block's projections and its attention: norms of queries and keys, their rotation, and
// the way of keys and values into a paged cache.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "weft/families.h"
#include "weft/narrow.h"
#include "weft/rounding.h"

namespace weft {

// Queries and keys are normalised, turned and stored; values are stored as they are. Parts of one packed
// projection are views: any strides but the last, so the three need not be dense.
//
// norm: each head by its own mean of squares (`head`), all heads of a token by one (`row`), or not at all;
// x / sqrt(mean(x²) + eps) · (weight + weight_offset). A weight is one head's, for every head, or has each
// head's own. Nothing is rounded between the norm and the rotation.
//
// The rotation is that of `rope`: pairs, base, rotary_dim and tables mean the same. One table of cosines beside
// sines is two views of it; head_cos and head_sin are tables by token that have a row for each head, of Q and of
// K alike. `frequencies` replaces base^(−2i/rotary_dim), for scaled or several-axis rotations.
// The first `prefix` tokens of each sequence do not turn; without `positions`, token t of a sequence is at
// start + t − prefix.
//
// A position may have three parts: frame, row and column, or time, height and width. Then section2 pairs turn
// by positions2, section3 pairs by positions3 and the others by positions: one section after the other
// (`blocks`), or in turn, pair i by part i mod 3 as long as that part has pairs left (`alternate`).
//
// With `slots` the key and the value of a token go to row slots[token] of the caches, whose rows are counted
// through the pages; -1, and on a device any number outside, stores neither. Of a cache in fp8 the stored value
// times k_scale (v_scale), the tensor's or each head's, is the real one. Every other row stays as it is.
//
// rounding=eager gives the bits of the chain of PyTorch operators that models are written in, on the same GPU:
//   n = x.float(); n = n * rsqrt(n.pow(2).mean(-1, keepdim=True) + eps)
//   eager      x = (n * (weight_offset + weight.float())).to(x.dtype)   as in Gemma
//   eager_cast x = weight * n.to(x.dtype)                               as in Llama, Qwen, diffusers
//   (x * cos + rotate(x) * sin).to(x.dtype)                             promoted to fp32 by tables in fp32
// addcmul: (x * cos).addcmul(rotate(x), sin), as in LTX-2. README.md says for which PyTorch and which sizes.
struct QkNormRope {
    static constexpr std::string_view kName = "qk_norm_rope";
    enum class Norm { head, row, none };
    enum class Pairs { half, interleaved };
    enum class Sections { blocks, alternate };

    Tensor q{}, k{}, v{}, q_out{}, k_out{}, v_out{}, q_weight{}, k_weight{};
    Tensor positions{}, cos{}, sin{}, frequencies{}, head_cos{}, head_sin{}, positions2{}, positions3{};
    Tensor slots{}, k_cache{}, v_cache{}, k_scale{}, v_scale{};
    Norm norm = Norm::head;
    float eps = 1e-6f, weight_offset = 0.0f;
    Pairs pairs = Pairs::half;
    float base = 10000.0f;
    std::int64_t rotary_dim = 0, prefix = 0, start = 0, section2 = 0, section3 = 0;
    Sections sections = Sections::blocks;
    Rounding rounding = Rounding::fused;
    bool addcmul = false;

    std::int64_t sequence() const { return q.dim(-3); }  // tokens of one
    std::int64_t tokens() const {                        // of all leading axes
        std::int64_t n = 1;
        for (int axis = 0; axis < q.rank - 2; ++axis) n *= q.shape[axis];
        return n;
    }
    std::int64_t head_dim() const { return q.dim(-1); }
    std::int64_t rotated() const { return rotary_dim == 0 ? head_dim() : rotary_dim; }
    // Which part of the position turns a pair.
    int part(std::int64_t pair) const {
        if (sections == Sections::alternate) {
            const std::int64_t which = pair % 3;
            return which == 1 && pair < 3 * section2 ? 1 : which == 2 && pair < 3 * section3 ? 2 : 0;
        }
        const std::int64_t third = rotated() / 2 - section3;
        return pair >= third ? 2 : pair >= third - section2 ? 1 : 0;
    }

    static const Contract& contract();
};

namespace qk_norm_rope_rules {

// A cache's dtypes by q's.
inline DTypeChoices cached_dtypes() {
    DTypeChoices choices;
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16})
        choices.emplace_back(dtype, std::vector{dtype, DType::fp8_e4m3, DType::fp8_e5m2});
    return choices;
}

// Kernels know one stride of all axes before the tokens.
inline std::optional<Violation> batches_fold(const QkNormRope& op) {
    for (const auto& [field, tensor, trailing] :
         {std::tuple{"q", &op.q, 3}, std::tuple{"k", &op.k, 3}, std::tuple{"v", &op.v, 3},
          std::tuple{"q_out", &op.q_out, 3}, std::tuple{"k_out", &op.k_out, 3},
          std::tuple{"v_out", &op.v_out, 3}, std::tuple{"head_cos", &op.head_cos, 3},
          std::tuple{"head_sin", &op.head_sin, 3}, std::tuple{"positions", &op.positions, 1},
          std::tuple{"positions2", &op.positions2, 1}, std::tuple{"positions3", &op.positions3, 1}}) {
        if (*tensor && !leading_stride(*tensor, trailing))
            return Violation{field, "the axes before the tokens must fold into one stride"};
    }
    return {};
}

inline std::optional<Violation> weights(const QkNormRope& op) {
    for (const auto& [field, weight, heads] :
         {std::tuple{"q_weight", &op.q_weight, op.q.dim(-2)},
          std::tuple{"k_weight", &op.k_weight, op.k ? op.k.dim(-2) : 0}}) {
        if (!*weight) continue;
        if (op.norm == QkNormRope::Norm::none) return Violation{field, "expected none with norm=none"};
        if (weight->dim(0) != op.head_dim() && weight->dim(0) != heads * op.head_dim())
            return Violation{field, "expected a weight of one head, [" + std::to_string(op.head_dim()) +
                                        "], or of all, [" + std::to_string(heads * op.head_dim()) +
                                        "], got [" + std::to_string(weight->dim(0)) + "]"};
    }
    if (op.weight_offset == 0.0f || op.q_weight || op.k_weight) return {};
    return Violation{"weight_offset", "expected 0 where there is no weight"};
}

inline std::optional<Violation> rotation(const QkNormRope& op) {
    const std::int64_t half = op.rotated() / 2;
    if (op.frequencies && op.frequencies.dim(0) != half)
        return Violation{"frequencies", "expected [half=" + std::to_string(half) +
                                            "] for rotary_dim=" + std::to_string(op.rotated()) + ", got [" +
                                            std::to_string(op.frequencies.dim(0)) + "]"};
    if (op.head_cos && op.head_cos.dim(-1) != half)
        return Violation{"head_cos", "expected half=" + std::to_string(half) +
                                         " for rotary_dim=" + std::to_string(op.rotated()) + ", got " +
                                         std::to_string(op.head_cos.dim(-1))};
    if (op.head_cos && op.k && op.k.dim(-2) != op.q.dim(-2))
        return Violation{"head_cos", "expected as many heads of k as of q, " + std::to_string(op.q.dim(-2)) +
                                         ", got " + std::to_string(op.k.dim(-2))};
    if (!op.cos && !op.head_cos && !op.frequencies && op.rotated() > 512)
        return Violation{"rotary_dim", "expected at most 512 without frequencies or tables, got " +
                                           std::to_string(op.rotated())};
    const std::int64_t turned = op.sequence() - op.prefix;  // tokens of a sequence
    if (op.cos && !op.positions && turned > 0 && op.start + turned > op.cos.dim(0))
        return Violation{
            "start", "expected at most table - tokens + prefix = " + std::to_string(op.cos.dim(0) - turned) +
                         " without positions, got " + std::to_string(op.start)};
    return {};
}

inline std::optional<Violation> steps(const QkNormRope& op) {
    if (op.rounding == Rounding::fused) {
        if (!op.addcmul) return {};
        return Violation{"addcmul", "expected false with rounding=fused: nothing is rounded before the sum"};
    }
    const Tensor& table = op.cos ? op.cos : op.head_cos;
    if (!table) return Violation{"rounding", "expected fused without tables of cosines and sines"};
    if (table.dtype != op.q.dtype && table.dtype != DType::fp32)
        return Violation{op.cos ? "cos" : "head_cos", "expected q's dtype or fp32 with rounding=eager, got " +
                                                          std::string(name(table.dtype))};
    if (op.rounding == Rounding::eager) return {};
    if (op.weight_offset != 0.0f)
        return Violation{"weight_offset", "expected 0 with rounding=eager_cast: the chain has no offset"};
    for (const auto& [field, weight] :
         {std::tuple{"q_weight", &op.q_weight}, std::tuple{"k_weight", &op.k_weight}}) {
        if (*weight && weight->dtype != op.q.dtype)
            return Violation{field, "expected q's dtype with rounding=eager_cast, got " +
                                        std::string(name(weight->dtype))};
    }
    return {};
}

inline std::optional<Violation> sections(const QkNormRope& op) {
    for (const auto& [field, pairs, positions] : {std::tuple{"section2", op.section2, &op.positions2},
                                                  std::tuple{"section3", op.section3, &op.positions3}}) {
        if (pairs > 0 && !*positions)
            return Violation{field, "expected 0 without its positions, got " + std::to_string(pairs)};
    }
    const std::int64_t half = op.rotated() / 2;
    const bool alternate = op.sections == QkNormRope::Sections::alternate;
    if (alternate && (op.section2 > (half + 1) / 3 || op.section3 > half / 3))
        return Violation{"sections", "alternate sections are at most a third of the " + std::to_string(half) +
                                         " pairs each"};
    if (op.section2 + op.section3 <= half) return {};
    return Violation{"section2", "expected section2 + section3 up to the " + std::to_string(half) +
                                     " pairs, got " + std::to_string(op.section2 + op.section3)};
}

inline std::optional<Violation> destinations(const QkNormRope& op) {
    if (op.k && !op.k_out && !op.k_cache) return Violation{"k", "expected k_out or k_cache beside it"};
    if (op.v && !op.v_out && !op.v_cache) return Violation{"v", "expected v_out or v_cache beside it"};
    if (op.slots && !op.k_cache && !op.v_cache)
        return Violation{"slots", "expected k_cache or v_cache beside it"};
    for (const auto& [field, scale, cache] :
         {std::tuple{"k_scale", &op.k_scale, &op.k_cache}, std::tuple{"v_scale", &op.v_scale, &op.v_cache}}) {
        if (!*scale || scale->dim(0) == 1 || scale->dim(0) == cache->dim(2)) continue;
        return Violation{field, "expected [1] or [kv_heads=" + std::to_string(cache->dim(2)) + "], got [" +
                                    std::to_string(scale->dim(0)) + "]"};
    }
    return {};
}

// Q, K and V once, and once for each place that they go to; of tables and weights what is used.
inline Work work(const QkNormRope& op) {
    const auto size = [](const Tensor& t, double copies) {
        return t ? copies * static_cast<double>(t.numel()) * bits(t.dtype) / 8 : 0.0;
    };
    const auto cached = [](const Tensor& t, const Tensor& cache) {
        return t && cache ? static_cast<double>(t.numel()) * bits(cache.dtype) / 8 : 0.0;
    };
    const double turns =
        static_cast<double>(op.positions ? op.tokens() : op.sequence()) * static_cast<double>(op.rotated());
    Work work{};
    work.bytes = size(op.q, 2) + size(op.k, op.k_out ? 2 : 1) + size(op.v, op.v_out ? 2 : 1) +
                 cached(op.k, op.k_cache) + cached(op.v, op.v_cache) + size(op.q_weight, 1) +
                 size(op.k_weight, 1) + size(op.positions, 1) + size(op.positions2, 1) +
                 size(op.positions3, 1) + size(op.slots, 1) + size(op.head_cos, 1) + size(op.head_sin, 1) +
                 size(op.frequencies, 1) + (op.cos ? turns * bits(op.cos.dtype) / 8 : 0);
    const auto elements = static_cast<double>(op.q.numel() + (op.k ? op.k.numel() : 0));
    work.flops = elements * (op.norm == QkNormRope::Norm::none ? 3 : 7);
    return work;
}

// What comes from the projections, and the weights of its norms.
inline void projections(Describe<QkNormRope>& op) {
    using Op = QkNormRope;
    op.in("q", &Op::q, "... tokens q_heads head_dim", kFloat, "the queries")
        .layout(Layout::inner)
        .in("k", &Op::k, "... tokens kv_heads head_dim", kFloat, "the keys")
        .optional()
        .like("q")
        .layout(Layout::inner)
        .in("v", &Op::v, "... tokens kv_heads head_dim", kFloat, "the values")
        .optional()
        .needs("k")
        .like("q")
        .layout(Layout::inner)
        .in("q_weight", &Op::q_weight, "q_weights*head_dim", kFloat, "one head's weight, or all heads'")
        .optional()
        .in("k_weight", &Op::k_weight, "k_weights*head_dim", kFloat, "the same of the keys")
        .optional()
        .needs("k");
}

// Other angles than those of a position and a base.
inline void turns(Describe<QkNormRope>& op) {
    using Op = QkNormRope;
    op.in("frequencies", &Op::frequencies, "half", DType::fp32,
          "angle of each pair at position 1, instead of the base's")
        .optional()
        .excludes("cos")
        .fill(Fill::uniform(0, 1))
        .in("head_cos", &Op::head_cos, "... tokens q_heads half", kFloat,
            "cosines of each token's every head")
        .optional()
        .needs("head_sin")
        .excludes("cos")
        .excludes("frequencies")
        .excludes("positions")
        .layout(Layout::inner)
        .fill(Fill::uniform(-1, 1))
        .in("head_sin", &Op::head_sin, "... tokens q_heads half", kFloat, "their sines")
        .optional()
        .needs("head_cos")
        .like("head_cos")
        .layout(Layout::inner)
        .fill(Fill::uniform(-1, 1))
        .in("positions2", &Op::positions2, "... tokens", kIndex, "the second part of each position")
        .optional()
        .needs("positions")
        .like("positions")
        .layout(Layout::strided)
        .fill(Fill::positions(32, "table").outside_is_defined())
        .in("positions3", &Op::positions3, "... tokens", kIndex, "the third part")
        .optional()
        .needs("positions")
        .like("positions")
        .layout(Layout::strided)
        .fill(Fill::positions(32, "table").outside_is_defined());
}

// Where heads go that stay with their tokens.
inline void outputs(Describe<QkNormRope>& op) {
    using Op = QkNormRope;
    op.out("q_out", &Op::q_out, "... tokens q_heads head_dim", kFloat, "the queries, turned")
        .like("q")
        .layout(Layout::inner)
        .in_place_of("q")
        .out("k_out", &Op::k_out, "... tokens kv_heads head_dim", kFloat, "the keys, turned")
        .optional()
        .needs("k")
        .like("q")
        .layout(Layout::inner)
        .in_place_of("k")
        .out("v_out", &Op::v_out, "... tokens kv_heads head_dim", kFloat, "the values, as they are")
        .optional()
        .needs("v")
        .like("q")
        .layout(Layout::inner)
        .in_place_of("v");
}

// Where they go by slots.
inline void caches(Describe<QkNormRope>& op) {
    using Op = QkNormRope;
    op.in("slots", &Op::slots, "... tokens", kIndex, "each token's row of the caches; -1: none")
        .optional()
        .layout(Layout::dense)
        .fill(Fill::slots("pages*page_size").or_minus_one().outside_is_defined())
        .inout("k_cache", &Op::k_cache, "pages page_size kv_heads head_dim", kFloat | kFp8, "the keys' cache")
        .optional()
        .needs("slots")
        .needs("k")
        .dtype_beside("q", cached_dtypes())
        .layout(Layout::inner)
        .inout("v_cache", &Op::v_cache, "pages page_size kv_heads head_dim", kFloat | kFp8,
               "the values' cache")
        .optional()
        .needs("slots")
        .needs("v")
        .dtype_beside("q", cached_dtypes())
        .layout(Layout::inner)
        .in("k_scale", &Op::k_scale, "k_scales", DType::fp32, "of the keys in fp8; absent: 1")
        .optional()
        .needs("k_cache")
        .scale_of("k_cache")
        .fill(Fill::scale())
        .in("v_scale", &Op::v_scale, "v_scales", DType::fp32, "of the values in fp8; absent: 1")
        .optional()
        .needs("v_cache")
        .scale_of("v_cache")
        .fill(Fill::scale());
}

}  // namespace qk_norm_rope_rules

inline const Contract& QkNormRope::contract() {
    using Op = QkNormRope;
    namespace rules = qk_norm_rope_rules;
    static const Contract contract =
        Describe<Op>(
            std::string(kName),
            "q_out = rope(norm(q)); k_out, k_cache[slots] = rope(norm(k)); v_out, v_cache[slots] = v")
            .with(rules::projections)
            .with(family::rotary_angles<Op>, "... tokens")
            .with(rules::turns)
            .with(rules::outputs)
            .with(rules::caches)
            .option("norm", &Op::norm, {"head", "row", "none"},
                    "over each head, all heads of a token, or none")
            .option("eps", &Op::eps, 0.0, 1.0, "added to the mean of squares", {1e-6, 1e-5})
            .option("weight_offset", &Op::weight_offset, -1.0, 1.0, "added to the weights", {0, 0, 1})
            .option("prefix", &Op::prefix, 0, std::int64_t{1} << 40,
                    "tokens of each sequence that do not turn", {0, 0, 2})
            .option("start", &Op::start, 0, std::int64_t{1} << 31,
                    "the position of the first token that turns", {0, 0, 9})
            .option("section2", &Op::section2, 0, 1 << 20, "pairs that turn by positions2", {0, 0, 1, 4})
            .option("section3", &Op::section3, 0, 1 << 20, "pairs that turn by positions3", {0, 0, 1, 4})
            .option("sections", &Op::sections, {"blocks", "alternate"}, "how the sections share the pairs")
            .option("rounding", &Op::rounding, {"fused", "eager", "eager_cast"},
                    "once at the end, or as PyTorch's operators")
            .option("addcmul", &Op::addcmul, "with eager: the second product is not rounded")
            .require(rules::batches_fold)
            .require(rules::steps)
            .require(rules::weights)
            .require(rules::rotation)
            .require(rules::sections)
            .require(rules::destinations)
            .work(rules::work)
            .tolerance(
                "(32 + count/1024)·ε₃₂ of a normed element, then 8·ε₃₂·(|a·cos| + |b·sin|); V exact; with "
                "rounding=eager 49·ε₃₂ of a normed element, and every rounding then takes both ends of that")
            .sizes("tokens", {1, 3, 8, 17})
            .sizes("q_heads", {1, 2, 5, 8})
            .sizes("kv_heads", {1, 2})
            .sizes("q_weights", {1, 1, 2, 5})
            .sizes("k_weights", {1, 1, 2})
            .sizes("k_scales", {1, 1, 2})
            .sizes("v_scales", {1, 1, 2})
            .sizes("head_dim", {2, 8, 16, 64, 72, 80, 128, 256, 260, 1040})
            .sizes("pages", {1, 2, 5})
            .sizes("page_size", {1, 4, 16})
            .sizes("table", {40, 64, 1000})
            .sizes("half", {1, 4, 8, 32, 36, 64})
            .source(
                "RMSNorm (arXiv:1910.07467) of heads, RoFormer (arXiv:2104.09864), paged caches; "
                "fused_qk_norm_rope, fused_inplace_qknorm_rope, ltx2_qknorm_split_rope");
    return contract;
}

}  // namespace weft
