// rms_norm: root-mean-square normalisation of rows.
#pragma once

#include <optional>
#include <utility>

#include "weft/eager_norm.h"
#include "weft/families.h"
#include "weft/rounding.h"

namespace weft {

// r = residual + gate · x, rounded to the residual's dtype; n = r / √(mean(r²) + eps) · (weight + weight_offset) + bias;
// out = n · (mod_offset + mod_scale) + mod_shift.
//
// Without a residual r is x. residual_out receives r, and the norm reads that rounded value, so the call
// equals "add, then norm". weight_offset is 1 for the Gemma family, whose checkpoints store weight − 1. The modulation
// (AdaRMS) is one for all rows, a batch, a frame or a row (weft/row_map.h), or each row picks its own from a table by
// mod_index; out2 is the same n modulated by mod_scale2 and mod_shift2.
//
// An `out` in fewer bits holds y divided by a scale, as quantize does: `scale`, which is read (absent: 1), or what is
// written: `token_scale`, one a row; `group_scale` or `swizzled_scale`, one for a group of columns.
//
// rounding=eager gives the bits of the chain of PyTorch operators that models are written in, on the same
// GPU:
//   x = residual + gate * x; n = x.float(); n = n * rsqrt(n.pow(2).mean(-1, keepdim=True) + eps);
//   eager      (n * (weight_offset + weight.float())).to(x.dtype)     as in Gemma
//   eager_cast weight * n.to(x.dtype) + bias                          as in Llama, Qwen, Mistral, diffusers
// and n * (mod_offset + mod_scale) + mod_shift after either, tanh(mod_scale) with mod_tanh.
// README.md says for which PyTorch and which sizes; other sizes are declined.
struct RmsNorm {
    static constexpr std::string_view kName = "rms_norm";

    Tensor x{}, weight{}, bias{}, residual{}, gate{}, residual_out{};
    Tensor mod_index{}, mod_scale{}, mod_shift{}, mod_scale2{}, mod_shift2{};
    Tensor out{}, scale{}, token_scale{}, group_scale{}, swizzled_scale{}, out2{};
    float eps = 1e-6f;
    float weight_offset = 0.0f, mod_offset = 1.0f;
    bool mod_tanh = false;
    Rounding rounding = Rounding::fused;

    static const Contract& contract();
};

inline const Contract& RmsNorm::contract() {
    using Op = RmsNorm;
    static const Contract contract =
        Describe<Op>(
            std::string(kName),
            "out = n · (mod_offset + mod_scale) + mod_shift, n = r / sqrt(mean(r²) + eps) · (weight + "
            "weight_offset) + bias, r = residual + gate · x")
            .with(family::row_norm<Op>)
            .option("eps", &Op::eps, 0.0f, 1.0f, "added to the mean square", {1e-5, 1e-6})
            .option("rounding", &Op::rounding, {"fused", "eager", "eager_cast"},
                    "once at the end, or as PyTorch's chain")
            .require(+[](const Op& op) -> std::optional<Violation> {
                if (op.rounding == Rounding::fused) return {};
                if (auto violation = family::eager_norm(op, false)) return violation;
                if (op.bias && op.rounding == Rounding::eager)
                    return Violation{"bias", "expected none with rounding=eager: the chain has no bias"};
                if (op.bias && op.bias.dtype != op.x.dtype)
                    return Violation{"bias", "expected x's dtype with rounding=eager_cast, got " +
                                                 std::string(name(op.bias.dtype))};
                if (op.rounding == Rounding::eager || !op.weight) return {};
                if (op.weight_offset != 0.0f) {
                    return Violation{"weight_offset",
                                     "expected 0 with rounding=eager_cast: the chain has no offset"};
                }
                if (op.weight.dtype == op.x.dtype) return {};
                return Violation{"weight", "expected x's dtype with rounding=eager_cast, got " +
                                               std::string(name(op.weight.dtype))};
            })
            .flops(+[](const Op& op) { return 4.0 * static_cast<double>(op.x.numel()); })
            .independent({"..."})
            .tolerance(
                "(k·|y − bias| + |y|)·ε₃₂, k = 32 + dim/1024: half the error of the sum of squares (33 + "
                "dim/512 "
                "additions in a thread, 14 between threads) and of the mean, and 5 roundings after it; "
                "residual_out "
                "by ε₃₂·|residual + gate·x|; a modulation adds ε₃₂·(2·|n·(mod_offset + mod_scale)| + |y|); "
                "fp8 adds 2·ε₃₂·|y|, and the row's scale its own error; with "
                "rounding=eager k = 48 "
                "(a reciprocal root of 2 ulp), and every rounding on the way takes both ends of the "
                "interval; "
                "residual_out is exact then")
            .sizes("dim", {1, 2, 7, 8, 31, 64, 100, 256, 768, 1000, 1152, 2048, 3001, 4096, 8200})
            .source(
                "arXiv:1910.07467; rms_norm, rms_norm_fp8, residual_add_rms_norm*, fused_add_rms_norm, "
                "rms_norm_dynamic_per_token_quant; Gemma, Llama and T5 norms");
    return contract;
}

}  // namespace weft
