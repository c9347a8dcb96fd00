// Splits a packed QKV projection, rotates queries and keys, and writes keys and values into the cache.
#pragma once

#include <optional>

#include "weft/contract.h"

namespace weft {

// A row of qkv is q_heads heads of Q, then kv_heads of K, then kv_heads of V. Q and K turn as `rope` does
// (same angles, same pairs); V is copied. Token t's K and V go to row `first + t` of the caches, where first
// is `cache_offset` plus, where it is given, the device number `cache_offset_add`: a captured graph then
// writes each step where that number says. Rows outside the cache are not written, on any device; what the
// host can see (the option alone) is an error instead. Every other row of the caches stays as it is.
//
// Without `positions`, token t is at position first + t: where its key lies in the cache. Of `cos` and `sin`
// row p belongs to position p; a position that they lack is an error on the CPU, and on a device a row of
// zeros.
struct QkvSplitRope {
    static constexpr std::string_view kName = "qkv_split_rope";
    enum class Pairs { half, interleaved };

    Tensor qkv{}, q{}, k_cache{}, v_cache{}, positions{}, cache_offset_add{}, cos{}, sin{};
    Pairs pairs = Pairs::half;
    float base = 10000.0f;
    std::int64_t rotary_dim = 0;
    std::int64_t cache_offset = 0;

    std::int64_t rotated() const { return rotary_dim == 0 ? q.dim(-1) : rotary_dim; }

    static const Contract& contract();
};

inline const Contract& QkvSplitRope::contract() {
    using Op = QkvSplitRope;
    static const Contract contract =
        Describe<Op>(std::string(kName), "q = rope(Q); k_cache[first + t] = rope(K); v_cache[first + t] = V")
            .in("qkv", &Op::qkv, "tokens (q_heads+2*kv_heads)*head_dim", kFloat, "the packed projection")
            .out("q", &Op::q, "tokens q_heads head_dim", kFloat, "the rotated queries")
            .layout(Layout::inner)
            .inout("k_cache", &Op::k_cache, "cache_tokens kv_heads head_dim", kFloat, "the keys' cache")
            .layout(Layout::inner)
            .inout("v_cache", &Op::v_cache, "cache_tokens kv_heads head_dim", kFloat, "the values' cache")
            .layout(Layout::inner)
            .in("positions", &Op::positions, "tokens", kIndex, "each token's position")
            .optional()
            .layout(Layout::strided)
            .fill(Fill::positions(32))
            .in("cache_offset_add", &Op::cache_offset_add, "1", kIndex,
                "added to cache_offset, read on the device")
            .optional()
            .fill(Fill::uniform(0, 9))
            .in("cos", &Op::cos, "table half", kFloat, "cosines by position, instead of computed ones")
            .optional()
            .layout(Layout::strided)
            .fill(Fill::uniform(-1, 1))
            .in("sin", &Op::sin, "table half", kFloat, "sines by position")
            .optional()
            .layout(Layout::strided)
            .fill(Fill::uniform(-1, 1))
            .option("pairs", &Op::pairs, {"half", "interleaved"}, "which elements of a head form a pair")
            .option("base", &Op::base, 1.0, 1e12, "the wavelengths' base", {10000, 1e6})
            .option("rotary_dim", &Op::rotary_dim, 0, 1 << 20, "elements of a head that turn; 0: all",
                    {0, 0, 2, 16})
            .option("cache_offset", &Op::cache_offset, 0, std::int64_t{1} << 40,
                    "the first token's cache row", {0, 0, 1, 5})
            .require(+[](const Op& op) -> std::optional<Violation> {
                for (const auto& [tensor, field] : {std::pair{&op.q, "q"}, std::pair{&op.k_cache, "k_cache"},
                                                    std::pair{&op.v_cache, "v_cache"}}) {
                    if (tensor->dtype == op.qkv.dtype) continue;
                    return Violation{field, "expected qkv's dtype " + std::string(name(op.qkv.dtype)) +
                                                ", got " + std::string(name(tensor->dtype))};
                }
                return {};
            })
            .require(+[](const Op& op) -> std::optional<Violation> {
                const std::int64_t tokens = op.qkv.dim(0), rows = op.k_cache.dim(0);
                if (op.cache_offset_add || op.cache_offset + tokens <= rows) return {};
                return Violation{"cache_offset",
                                 "expected at most cache_tokens - tokens = " + std::to_string(rows - tokens) +
                                     ", got " + std::to_string(op.cache_offset)};
            })
            .require(+[](const Op& op) -> std::optional<Violation> {
                const std::int64_t rotated = op.rotated();
                if (rotated % 2 == 0 && rotated <= op.q.dim(-1)) return {};
                return Violation{"rotary_dim",
                                 "expected an even number up to head_dim=" + std::to_string(op.q.dim(-1)) +
                                     ", got " + std::to_string(rotated)};
            })
            .require(+[](const Op& op) -> std::optional<Violation> {
                if (!op.cos && !op.sin) return {};
                if (!op.cos || !op.sin) {
                    return Violation{op.cos ? "sin" : "cos", "expected both cos and sin or neither, got one"};
                }
                if (op.cos.dtype != op.sin.dtype) {
                    return Violation{"sin", "expected cos's dtype " + std::string(name(op.cos.dtype)) +
                                                ", got " + std::string(name(op.sin.dtype))};
                }
                if (op.cos.dim(0) == 0 && op.qkv.numel() > 0) {
                    return Violation{"cos", "expected at least one row, got none"};
                }
                if (op.cos.dim(-1) * 2 == op.rotated()) return {};
                return Violation{"cos", "expected [table, half=" + std::to_string(op.rotated() / 2) +
                                            "] for rotary_dim=" + std::to_string(op.rotated()) +
                                            ", got half=" + std::to_string(op.cos.dim(-1))};
            })
            .require(+[](const Op& op) -> std::optional<Violation> {
                if (!op.cos || op.positions || op.cache_offset_add) return {};
                const std::int64_t tokens = op.qkv.dim(0), rows = op.cos.dim(0);
                if (op.cache_offset + tokens <= rows) return {};
                return Violation{"cos", "expected at least cache_offset + tokens = " +
                                            std::to_string(op.cache_offset + tokens) +
                                            " rows without positions, got " + std::to_string(rows)};
            })
            .work(+[](const Op& op) {
                // Of the caches, only the new rows; of the tables, only the rows that are used.
                const double tokens = static_cast<double>(op.qkv.dim(0)),
                             elements = static_cast<double>(op.qkv.numel());
                Work work{.bytes = elements * 2 * bits(op.qkv.dtype) / 8, .flops = 3 * elements};
                if (op.positions) work.bytes += tokens * bits(op.positions.dtype) / 8;
                if (op.cos) work.bytes += tokens * static_cast<double>(op.rotated()) * bits(op.cos.dtype) / 8;
                return work;
            })
            .tolerance("8·ε₃₂·(|a·cos| + |b·sin|) for Q and K; V exact")
            .sizes("tokens", {1, 3, 8, 17})
            .sizes("q_heads", {1, 2, 8})
            .sizes("kv_heads", {1, 2})
            .sizes("cache_tokens", {17, 32, 50})
            .sizes("head_dim", {2, 8, 16, 64, 72, 80, 128, 256, 260})
            .sizes("table", {40, 64, 1000})
            .sizes("half", {1, 4, 8, 32, 36, 64})
            .source("RoFormer (arXiv:2104.09864); qkv_split, qkv_split_rope, qkv_split_rope_kvcache_fp16");
    return contract;
}

}  // namespace weft
