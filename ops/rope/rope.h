// Rotary position embedding of queries or keys.
#pragma once

#include <optional>

#include "weft/families.h"
#include "weft/rounding.h"

namespace weft {

// Pair i of a head turns by its angle: (a, b) → (a·cos − b·sin, b·cos + a·sin), angle = position · f(i),
// f(i) = base^(−2i / rotary_dim) rounded to fp32, the angle the fp32 product, cosine and sine those of that
// angle, neither rounded further. (The Hugging Face transformers library forms the same angle, then rounds
// cosine, sine and both products to the activation's dtype; give its tables as `cos` and `sin` to share the
// first rounding.)
//
// A pair is (i, i + rotary_dim/2) for `half`, (2i, 2i + 1) for `interleaved`. Elements from rotary_dim on (0:
// the whole head) are copied. Without `positions`, token t is at start + t. Tables replace the computed
// angles: row p belongs to position p. A position that they lack is an error where the host can see it (on
// the CPU, and without `positions`), and on a device a row of zeros, never memory outside.
//
// rounding=eager has the bits of (x * cos + rotate(x) * sin).to(x.dtype) in PyTorch: with tables of x's dtype each of the two
// products is rounded to it, then the sum; with tables in fp32 products and sum are fp32.
struct Rope {
    static constexpr std::string_view kName = "rope";
    enum class Pairs { half, interleaved };

    Tensor x{}, out{}, positions{}, cos{}, sin{};
    Pairs pairs = Pairs::half;
    float base = 10000.0f;
    std::int64_t rotary_dim = 0;
    std::int64_t start = 0;
    Rounding rounding = Rounding::fused;

    std::int64_t tokens() const {  // of all leading axes
        std::int64_t n = 1;
        for (int axis = 0; axis < x.rank - 2; ++axis) n *= x.shape[axis];
        return n;
    }
    std::int64_t head_dim() const { return x.dim(-1); }
    std::int64_t rotated() const { return rotary_dim == 0 ? head_dim() : rotary_dim; }

    static const Contract& contract();
};

inline const Contract& Rope::contract() {
    using Op = Rope;
    static const Contract contract =
        Describe<Op>(std::string(kName),
                     "(a, b) of pair i → (a·cos θ − b·sin θ, b·cos θ + a·sin θ), "
                     "θ = position · base^(−2i/rotary_dim)")
            .in("x", &Op::x, "... tokens heads head_dim", kFloat, "queries or keys")
            .layout(Layout::inner)
            .out("out", &Op::out, "... tokens heads head_dim", kFloat, "the rotated heads")
            .like("x")
            .layout(Layout::inner)
            .in_place_of("x")
            .with(family::rotary_angles<Op>, "... tokens")
            .option("start", &Op::start, 0, std::int64_t{1} << 31, "the first token's position",
                    {0, 968, 131071})
            .option("rounding", &Op::rounding, {"fused", "eager"},
                    "once at the end, or as PyTorch's operators")
            .require(+[](const Op& op) -> std::optional<Violation> {
                if (op.rounding == Rounding::fused) return {};
                if (!op.cos)
                    return Violation{"rounding", "expected fused without tables of cosines and sines"};
                if (op.cos.dtype == op.x.dtype || op.cos.dtype == DType::fp32) return {};
                return Violation{"cos", "expected x's dtype or fp32 with rounding=eager, got " +
                                            std::string(name(op.cos.dtype))};
            })
            .require(+[](const Op& op) -> std::optional<Violation> {
                if (!op.cos || op.positions || op.x.numel() == 0) return {};
                const std::int64_t tokens = op.x.dim(-3), rows = op.cos.dim(0);
                if (op.start + tokens <= rows) return {};
                return Violation{"start",
                                 "expected at most table - tokens = " + std::to_string(rows - tokens) +
                                     " without positions, got " + std::to_string(op.start)};
            })
            .work(+[](const Op& op) { return family::rotary_work(op, op.x.numel(), op.x.dtype); })
            .independent({"...", "heads"})
            .tolerance("8·ε₃₂·(|a·cos| + |b·sin|); with rounding=eager none")
            .sizes("tokens", {1, 3, 8, 17})
            .sizes("heads", {1, 2, 5})
            .sizes("head_dim", {2, 8, 16, 64, 72, 80, 128, 256, 260})
            .sizes("table", {32, 40, 1000})
            .sizes("half", {1, 4, 8, 32, 36, 64})
            .source(
                "RoFormer (arXiv:2104.09864); rope_apply, rope_rotate_half_fp16, apply_rotary_pos_emb, "
                "rope_rotate_half_bitexact");
    return contract;
}

}  // namespace weft
