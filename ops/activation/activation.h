// activation: out = act(x + add + bias).
#pragma once

#include <optional>
#include <string>

#include "weft/activation.h"
#include "weft/contract.h"
#include "weft/rounding.h"

namespace weft {

// One function of every element, with an addition before it and another tensor beside its results where wanted.
//
// rounding=fused computes in fp32 and rounds once. rounding=eager does what a chain of PyTorch's eager operators
// does: each sum before the activation is rounded to x's dtype, and the activation is PyTorch's own form of it.
struct Activate {
    static constexpr std::string_view kName = "activation";
    using Activation = weft::Activation;

    Tensor x{}, add{}, bias{}, front{}, out{}, scale{};
    Activation activation = Activation::silu;
    float alpha = 1;
    Rounding rounding = Rounding::fused;

    static const Contract& contract();
};

inline const Contract& Activate::contract() {
    using Op = Activate;
    static const Contract contract =
        Describe<Op>(std::string(kName), "out = [front, act(x + add + bias)]")
            .in("x", &Op::x, "... dim", kFloat, "what the activation is applied to")
            .fill(Fill::normal(0, 2))
            .in("add", &Op::add, "... dim", kFloat, "added to x first")
            .optional()
            .in("bias", &Op::bias, "dim", kFloat, "added to every row, next")
            .optional()
            .in("front", &Op::front, "... front_dim", kFloat, "copied before the results of its row")
            .optional()
            .out("out", &Op::out, "... front_dim+dim", kFloat | kFp8, "the results")
            .in_place_of("x")
            .in_place_of("add")
            .in("scale", &Op::scale, "1", DType::fp32, "the stored value times this is the real value")
            .optional()
            .fill(Fill::scale())
            .scale_of("out")
            .option("activation", &Op::activation,
                    {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf, Activation::gelu_quick,
                     Activation::sigmoid, Activation::tanh, Activation::relu, Activation::relu2,
                     Activation::leaky_relu, Activation::elu, Activation::hardswish, Activation::hardshrink,
                     Activation::none},
                    "the function")
            .option("alpha", &Op::alpha, 0, 1e30, "of leaky_relu, elu and hardshrink", {0.01, 0.5, 1})
            .option("rounding", &Op::rounding, {"fused", "eager"},
                    "once, or as PyTorch's eager operators round")
            .require(+[](const Op& op) -> std::optional<Violation> {
                if (op.rounding == Rounding::fused) return {};
                if (op.activation == Activation::gelu_quick)
                    return Violation{"activation",
                                     "expected another than gelu_quick beside rounding=eager: PyTorch has "
                                     "no such operator"};
                const auto same = [&](const Tensor& t) { return !t || t.dtype == op.x.dtype; };
                if (same(op.add) && same(op.bias) && same(op.out)) return {};
                return Violation{"rounding", "expected add, bias and out of x's dtype for eager"};
            })
            .flops(+[](const Op& op) { return 10.0 * static_cast<double>(op.x.numel()); })
            .independent({"..."})
            .tolerance(
                "k·ε₃₂·|out|: k = 16 + 5·|t|·(1 − σ(t)) of sigmoids of t and what they multiply (2⁻¹²⁵ "
                "beside "
                "it where the exponential overflows), 16 + 2·x² of gelu_erf below 0, 8 of tanh, elu and "
                "hardswish, 2 of the others; an eager gelu 8·ε₃₂·|x|; sums before it ε₃₂ each times the "
                "slope "
                "(eager ones are exact), fp8 3·ε₃₂")
            .sizes("dim", {1, 7, 8, 64, 100, 256, 1000, 4096})
            .sizes("front_dim", {0, 0, 0, 1, 8, 24, 512})
            .source(
                "torch.nn.functional's activations; silu_inplace, gelu_inplace, relu_inplace, fused_add_silu "
                "of VLA engines; fused_gelu_tanh_cat, bias_silu, relu2 of SGLang's diffusion kernels");
    return contract;
}

}  // namespace weft
