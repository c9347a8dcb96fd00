// Splits a packed QKV projection, rotates queries and keys, and writes keys and values into the cache.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "weft/families.h"

namespace weft {

// A row of qkv is q_heads heads of Q, then kv_heads of K, then kv_heads of V. Q and K turn as `rope` does
// (same angles, same pairs); V is copied. Token t's K and V go to row `first + t` of the caches, where first
// is `cache_offset` plus, where it is given, the device number `cache_offset_add`: a captured graph then
// writes each step where that number says. Rows outside the cache are not written, on any device; what the
// host can see (the option alone) is an error instead. Every other row of the caches stays as it is.
//
// Without `positions`, token t is at position first + t: where its key lies in the cache. Of `cos` and `sin`
// row p belongs to position p; a position that they lack is an error on the CPU, and on a device a row of
// zeros. With rotate=false nothing turns: the three parts are copied as they are.
struct QkvSplitRope {
    static constexpr std::string_view kName = "qkv_split_rope";
    enum class Pairs { half, interleaved };

    Tensor qkv{}, q{}, k_cache{}, v_cache{}, positions{}, cache_offset_add{}, cos{}, sin{};
    Pairs pairs = Pairs::half;
    float base = 10000.0f;
    std::int64_t rotary_dim = 0;
    std::int64_t cache_offset = 0;
    bool rotate = true;

    std::int64_t tokens() const { return qkv.dim(0); }
    std::int64_t head_dim() const { return q.dim(-1); }
    std::int64_t rotated() const { return !rotate ? 0 : rotary_dim == 0 ? head_dim() : rotary_dim; }

    static const Contract& contract();
};

inline const Contract& QkvSplitRope::contract() {
    using Op = QkvSplitRope;
    static const Contract contract =
        Describe<Op>(std::string(kName), "q = rope(Q); k_cache[first + t] = rope(K); v_cache[first + t] = V")
            .in("qkv", &Op::qkv, "tokens (q_heads+2*kv_heads)*head_dim", kFloat, "the packed projection")
            .out("q", &Op::q, "tokens q_heads head_dim", kFloat, "the rotated queries")
            .like("qkv")
            .layout(Layout::inner)
            .inout("k_cache", &Op::k_cache, "cache_tokens kv_heads head_dim", kFloat, "the keys' cache")
            .like("qkv")
            .layout(Layout::inner)
            .inout("v_cache", &Op::v_cache, "cache_tokens kv_heads head_dim", kFloat, "the values' cache")
            .like("qkv")
            .layout(Layout::inner)
            .in("cache_offset_add", &Op::cache_offset_add, "1", kIndex,
                "added to cache_offset, read on the device")
            .optional()
            .fill(Fill::uniform(0, 9))
            .with(family::rotary_angles<Op>, "tokens")
            .option("cache_offset", &Op::cache_offset, 0, std::int64_t{1} << 40,
                    "the first token's cache row", {0, 0, 1, 5})
            .option("rotate", &Op::rotate, "queries and keys turn; else they are copied")
            .require(+[](const Op& op) -> std::optional<Violation> {
                if (op.rotate) return {};
                for (const auto& [field, tensor] :
                     {std::pair{"positions", &op.positions}, std::pair{"cos", &op.cos}}) {
                    if (*tensor) return Violation{field, "expected none with rotate=false"};
                }
                if (op.rotary_dim == 0) return {};
                return Violation{"rotary_dim",
                                 "expected 0 with rotate=false, got " + std::to_string(op.rotary_dim)};
            })
            .require(+[](const Op& op) -> std::optional<Violation> {
                const std::int64_t tokens = op.qkv.dim(0), rows = op.k_cache.dim(0);
                if (op.cache_offset_add || op.cache_offset + tokens <= rows) return {};
                return Violation{"cache_offset",
                                 "expected at most cache_tokens - tokens = " + std::to_string(rows - tokens) +
                                     ", got " + std::to_string(op.cache_offset)};
            })
            .require(+[](const Op& op) -> std::optional<Violation> {
                if (!op.cos || op.positions || op.cache_offset_add) return {};
                const std::int64_t tokens = op.qkv.dim(0), rows = op.cos.dim(0);
                if (op.cache_offset + tokens <= rows) return {};
                return Violation{"cos", "expected at least cache_offset + tokens = " +
                                            std::to_string(op.cache_offset + tokens) +
                                            " rows without positions, got " + std::to_string(rows)};
            })
            // Of the caches, only the new rows.
            .work(+[](const Op& op) { return family::rotary_work(op, op.qkv.numel(), op.qkv.dtype); })
            .tolerance("8·ε₃₂·(|a·cos| + |b·sin|) for Q and K; V exact, and all with rotate=false")
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
