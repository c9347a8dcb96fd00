// layer_norm: rows to mean 0 and variance 1.
#pragma once

#include <optional>
#include <utility>

#include "weft/eager_norm.h"
#include "weft/families.h"
#include "weft/rounding.h"

namespace weft {

// r = residual + gate · x, rounded to the residual's dtype; n = (r − mean) / √(var + eps) · (weight + weight_offset)
// + bias, var the mean of (r − mean)², from a second pass over the values held;
// out = n · (mod_offset + mod_scale) + mod_shift.
//
// Without a residual r is x. residual_out receives r, and the norm reads that rounded value, so the call
// equals "add, then norm". The modulation (AdaLN) is one for all rows, a batch, a frame or a row (weft/row_map.h), or
// each row picks its own from a table by mod_index; out2 is the same n modulated by mod_scale2 and mod_shift2.
//
// An `out` in fewer bits holds y divided by a scale, as quantize does: `scale`, which is read (absent: 1), or what is
// written: `token_scale`, one a row; `group_scale` or `swizzled_scale`, one for a group of columns.
//
// rounding=eager gives the bits of the chain of PyTorch operators that models are written in, on the same GPU:
//   x = residual + gate * x; n = F.layer_norm(x, [dim], weight, bias, eps); n * (mod_offset + mod_scale) + mod_shift
// With a modulation in fp32 beside an x of 16 bits the norm is F.layer_norm(x.float(), ...) and all in fp32 up to out.
// README.md says for which PyTorch and which sizes; other sizes are declined.
struct LayerNorm {
    static constexpr std::string_view kName = "layer_norm";

    Tensor x{}, weight{}, bias{}, residual{}, gate{}, residual_out{};
    Tensor mod_index{}, mod_scale{}, mod_shift{}, mod_scale2{}, mod_shift2{};
    Tensor out{}, scale{}, token_scale{}, group_scale{}, swizzled_scale{}, out2{};
    float eps = 1e-5f;
    float weight_offset = 0.0f, mod_offset = 1.0f;
    bool mod_tanh = false;
    Rounding rounding = Rounding::fused;

    static const Contract& contract();
};

inline const Contract& LayerNorm::contract() {
    using Op = LayerNorm;
    static const Contract contract =
        Describe<Op>(std::string(kName),
                     "out = n · (mod_offset + mod_scale) + mod_shift, n = (r - mean(r)) / sqrt(var(r) + eps) "
                     "· (weight + "
                     "weight_offset) + bias, r = residual + gate · x")
            .with(family::row_norm<Op>)
            .option("eps", &Op::eps, 0.0f, 1.0f, "added to the variance", {1e-5, 1e-6})
            .option("rounding", &Op::rounding, {"fused", "eager"},
                    "once at the end, or as PyTorch's operators")
            .require(+[](const Op& op) -> std::optional<Violation> {
                if (op.rounding == Rounding::fused) return {};
                if (auto violation = family::eager_norm(op, true)) return violation;
                for (const auto& [field, tensor] :
                     {std::pair{"weight", &op.weight}, std::pair{"bias", &op.bias}}) {
                    if (!*tensor || tensor->dtype == op.x.dtype || tensor->dtype == DType::fp32) continue;
                    return Violation{field, "expected x's dtype or fp32 with rounding=eager, got " +
                                                std::string(name(tensor->dtype))};
                }
                if (op.weight_offset == 0.0f) return {};
                return Violation{"weight_offset",
                                 "expected 0 with rounding=eager: F.layer_norm has no offset"};
            })
            .flops(+[](const Op& op) { return 7.0 * static_cast<double>(op.x.numel()); })
            .independent({"..."})
            .tolerance(
                "with S = 1/√(var + eps), W = |weight + weight_offset| and k = 52 + dim/512 (what a sum's "
                "additions "
                "and the division may err): the mean errs by δ = k·ε₃₂·mean|r| (a single column's: 0), a "
                "difference by d = δ + "
                "ε₃₂·|r − mean|, "
                "S by s = (k + 6)/2 + S²·(δ²/2 + mean|r − mean|·d) relative; y by (S·W·d + (s + 5·ε₃₂)·|y − "
                "bias|) + "
                "ε₃₂·|y|; residual_out by ε₃₂·|residual + gate·x|; a modulation adds ε₃₂·(2·|n·(mod_offset + "
                "mod_scale)| + |y|); "
                "fp8 adds 2·ε₃₂·|y|, and the row's scale its "
                "own "
                "error; with rounding=eager k = 64 + dim/64: each of a thread's dim/128 updates rounds the "
                "mean, every rounding on the way takes both ends of the interval, and residual_out is exact")
            .sizes("dim", {1, 2, 7, 8, 31, 64, 100, 256, 768, 1000, 1152, 2048, 3001, 4096, 8200})
            .source(
                "arXiv:1607.06450; layer_norm, layer_norm_fp8, residual_add_layer_norm*, ln_modulate; "
                "SigLIP, ViT");
    return contract;
}

}  // namespace weft
