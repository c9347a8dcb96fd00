// act(gate) * up, the gate of a transformer's feed-forward block.
#pragma once

#include <optional>

#include "weft/families.h"

namespace weft {

// out = act(gate) · up, computed in fp32 and rounded once.
//
// act is silu x/(1+e^−x), gelu_tanh 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))), or gelu_erf x·Φ(x). Gate and
// up come as one tensor of two halves (`x`, the gate first: what a merged projection writes) or as two
// tensors.
//
// An fp8 `out` holds the product divided by a scale: `scale`, which is read (absent: 1), or `token_scale`,
// which is written: one a row, amax / max.
struct GatedActivation {
    static constexpr std::string_view kName = "gated_activation";
    enum class Activation { silu, gelu_tanh, gelu_erf };

    Tensor out{}, x{}, gate{}, up{}, scale{}, token_scale{};
    Activation activation = Activation::silu;

    static const Contract& contract();
};

inline const Contract& GatedActivation::contract() {
    using Op = GatedActivation;
    static const Contract contract =
        Describe<Op>(std::string(kName), "out = act(gate) · up")
            .out("out", &Op::out, "... hidden", kFloat | kFp8, "the product")
            .in_place_of("gate")
            .in_place_of("up")
            .in("x", &Op::x, "... 2*hidden", kFloat, "gate, then up, in one row")
            .optional()
            .fill(Fill::normal(0, 2))
            .in("gate", &Op::gate, "... hidden", kFloat, "what the activation is applied to")
            .optional()
            .excludes("x")
            .needs("up")
            .fill(Fill::normal(0, 2))
            .in("up", &Op::up, "... hidden", kFloat, "what it multiplies")
            .optional()
            .excludes("x")
            .needs("gate")
            .like("gate")
            .with(family::fp8_scales<Op>)
            .option("activation", &Op::activation, {"silu", "gelu_tanh", "gelu_erf"}, "the activation")
            .require(+[](const Op& op) -> std::optional<Violation> {
                if (op.x || op.gate) return {};
                return Violation{"x", "expected x, or gate and up, got neither x nor gate"};
            })
            .independent({"..."})
            .tolerance(
                "(16 + 5·|t|·(1 − σ(t)))·ε₃₂·|act(gate)·up|, t the sigmoid's argument (gelu_erf: 16 + "
                "2·gate² for "
                "a negative gate), and 2⁻¹²⁵·|gate·up| where the exponential overflows; fp8 adds 3·ε₃₂, and "
                "the "
                "row's scale its own error")
            .sizes("hidden", {1, 7, 8, 64, 100, 256, 1000, 4096})
            .source(
                "gated linear units (arXiv:2002.05202); gate_geglu*, geglu_fp8_static_fp16, "
                "silu_mul_split_fp8_fp16, silu_and_mul, gelu_and_mul");
    return contract;
}

}  // namespace weft
