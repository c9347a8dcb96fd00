// act(gate) * up, the gate of a transformer's feed-forward block.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "weft/activation.h"
#include "weft/families.h"
#include "weft/rounding.h"

namespace weft {

// out = act(gate) · up, computed in fp32 and rounded once.
//
// act is silu x/(1+e^−x) (SwiGLU), gelu_tanh 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))) or gelu_erf x·Φ(x) (GEGLU),
// gelu_quick x/(1+e^(−1.702·x)), sigmoid (GLU) or relu (ReGLU). Gate and up come as one tensor of two halves (`x`, the
// gate first: what a merged projection writes) or as two tensors.
//
// `gate_bias` and `up_bias` are added to each row first: what the projection before has not added.
//
// rounding=eager rounds each sum, the activation and the product to gate's dtype, and the activation has the form of
// PyTorch's operator: the bits of act(gate + gate_bias) * (up + up_bias) there.
//
// `channel_multiplier` multiplies each column of the product in fp32.
//
// Gate and up may be NVFP4: fp4_e2m1 with `gate_scale` and `up_scale`, one fp8_e4m3 for 16 columns in tiles of 128 rows by
// 4 groups, which is what block-scaled matrix products write.
//
// An `out` in fewer bits holds the product divided by a scale, as quantize does: `scale`, which is read (absent: 1), or
// what is written: `token_scale`, one a row; `group_scale` or `swizzled_scale`, one for a group of columns.
struct GatedActivation {
    static constexpr std::string_view kName = "gated_activation";
    using Activation = weft::Activation;

    Tensor out{}, x{}, gate{}, up{}, scale{}, token_scale{}, group_scale{}, swizzled_scale{};
    Tensor channel_multiplier{}, gate_scale{}, up_scale{}, gate_bias{}, up_bias{};
    Activation activation = Activation::silu;
    Rounding rounding = Rounding::fused;

    static const Contract& contract();
};

namespace gated_activation_rules {

inline std::optional<Violation> source(const GatedActivation& op) {
    if (op.x || op.gate) return {};
    return Violation{"x", "expected x, or gate and up, got neither x nor gate"};
}

inline std::optional<Violation> codes(const GatedActivation& op) {
    if (!op.gate || op.gate.dtype != DType::fp4_e2m1) return {};
    for (const auto& [field, scale] :
         {std::pair{"gate_scale", &op.gate_scale}, std::pair{"up_scale", &op.up_scale}}) {
        if (!*scale) return Violation{field, "expected one for fp4_e2m1, got none"};
    }
    return {};
}

// What the chain of PyTorch's operators has not.
inline std::optional<Violation> eager(const GatedActivation& op) {
    if (op.rounding == Rounding::fused) return {};
    const DType dtype = op.x ? op.x.dtype : op.gate.dtype;
    if (dtype == DType::fp4_e2m1) return Violation{"rounding", "expected fused for a gate of NVFP4"};
    if (op.activation == Activation::gelu_quick)
        return Violation{
            "activation",
            "expected another than gelu_quick beside rounding=eager: PyTorch has no such operator"};
    for (const auto& [field, tensor] : {std::pair{"gate_bias", &op.gate_bias},
                                        std::pair{"up_bias", &op.up_bias}, std::pair{"out", &op.out}}) {
        if (*tensor && tensor->dtype != dtype)
            return Violation{
                field, "expected gate's dtype with rounding=eager, got " + std::string(name(tensor->dtype))};
    }
    if (!op.channel_multiplier) return {};
    return Violation{"channel_multiplier", "expected none with rounding=eager: the chain has none"};
}

}  // namespace gated_activation_rules

inline const Contract& GatedActivation::contract() {
    using Op = GatedActivation;
    constexpr const char* kTiles = "pad(...,128) pad(ceil(hidden/16),4)";
    static const Contract contract =
        Describe<Op>(std::string(kName), "out = act(gate) · up")
            .out("out", &Op::out, "... hidden", kFloat | kNarrow, "the product")
            .in_place_of("gate")
            .in_place_of("up")
            .in("x", &Op::x, "... 2*hidden", kFloat, "gate, then up, in one row")
            .optional()
            .fill(Fill::normal(0, 2))
            .in("gate", &Op::gate, "... hidden", kFloat | DType::fp4_e2m1,
                "what the activation is applied to")
            .optional()
            .excludes("x")
            .needs("up")
            .fill(Fill::normal(0, 2))
            .in("up", &Op::up, "... hidden", kFloat | DType::fp4_e2m1, "what it multiplies")
            .optional()
            .excludes("x")
            .needs("gate")
            .like("gate")
            .with(family::narrow_scales<Op, &Op::out>, "out", "hidden", Role::out)
            .with(family::channel_multiplier<Op>, "hidden")
            .in("gate_scale", &Op::gate_scale, kTiles, DType::fp8_e4m3, "the scales of a gate of NVFP4")
            .optional()
            .layout(Layout::dense)
            .fill(Fill::scale(0.1, 2))
            .needs("gate")
            .scale_of("gate")
            .in("up_scale", &Op::up_scale, kTiles, DType::fp8_e4m3, "the scales of an up of NVFP4")
            .optional()
            .layout(Layout::dense)
            .fill(Fill::scale(0.1, 2))
            .needs("gate_scale")
            .in("gate_bias", &Op::gate_bias, "hidden", kFloat, "added to every row of gate first")
            .optional()
            .in("up_bias", &Op::up_bias, "hidden", kFloat, "added to every row of up first")
            .optional()
            .option("activation", &Op::activation,
                    {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf, Activation::gelu_quick,
                     Activation::sigmoid, Activation::relu},
                    "the activation")
            .option("rounding", &Op::rounding, {"fused", "eager"}, "once, or as PyTorch's operators")
            .require(gated_activation_rules::source)
            .require(gated_activation_rules::codes)
            .require(gated_activation_rules::eager)
            .independent({"..."})
            .tolerance(
                "(16 + 5·|t|·(1 − σ(t)))·ε₃₂·|act(gate)·up|, t the sigmoid's argument (gelu_erf: 16 + "
                "2·gate² for a negative gate; relu: 2), and 2⁻¹²⁵·|gate·up| where the exponential overflows; "
                "fewer bits add 2·ε₃₂, and a scale that is found its own error; biases ε₃₂ of each sum times "
                "the slope; with rounding=eager what the activation's rounding may change, and nothing else")
            .sizes("hidden", {1, 7, 8, 48, 64, 100, 256, 1000, 4096})
            .source(
                "gated linear units (arXiv:2002.05202); gate_geglu*, geglu_fp8_static_fp16, "
                "silu_mul_split_fp8_fp16, silu_and_mul, gelu_and_mul; silu_mul_bitexact, bias_glu of "
                "SGLang's diffusion kernels");
    return contract;
}

}  // namespace weft
