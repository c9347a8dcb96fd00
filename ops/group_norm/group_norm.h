// group_norm: each group of channels brought to mean 0 and variance 1.
#pragma once

#include <optional>
#include <string>

#include "weft/activation.h"
#include "weft/contract.h"

namespace weft {

// out = act((x − mean) / sqrt(var + eps) · weight + bias), mean and biased variance of a batch's group of neighbouring
// channels over all places, weight and bias of a channel. `spatial` is the places as one axis: of NCHW or NCTHW tensors
// and of channels-last ones a view (flatten(2) in PyTorch), whatever their strides; of [N, C] tokens one place.
struct GroupNorm {
    static constexpr std::string_view kName = "group_norm";
    using Activation = weft::Activation;

    Tensor x{}, weight{}, bias{}, out{};
    std::int64_t groups = 32;
    float eps = 1e-5f;
    Activation activation = Activation::none;

    static const Contract& contract();
};

inline const Contract& GroupNorm::contract() {
    using Op = GroupNorm;
    static const Contract contract =
        Describe<Op>(std::string(kName),
                     "out = act((x − mean) / sqrt(var + eps) · weight + bias) by groups of channels")
            .in("x", &Op::x, "batch channels spatial", kFloat, "channels first, or a view of channels last")
            .layout(Layout::strided)
            .in("weight", &Op::weight, "channels", kFloat, "absent: 1")
            .optional()
            .in("bias", &Op::bias, "channels", kFloat, "absent: 0")
            .optional()
            .out("out", &Op::out, "batch channels spatial", kFloat, "the normalised tensor")
            .layout(Layout::strided)
            .in_place_of("x")
            .option("groups", &Op::groups, 1, 1 << 20, "of channels", {1, 2, 4, 8, 32})
            .option("eps", &Op::eps, 0, 1, "added to the variance", {1e-5, 1e-6})
            .option("activation", &Op::activation, {Activation::none, Activation::silu}, "applied last")
            .require(+[](const Op& op) -> std::optional<Violation> {
                if (op.x.dim(1) % op.groups == 0) return {};
                return Violation{"groups", "expected a divisor of channels=" + std::to_string(op.x.dim(1)) +
                                               ", got " + std::to_string(op.groups)};
            })
            .flops(+[](const Op& op) { return 8.0 * static_cast<double>(op.x.numel()); })
            .independent({"batch"})
            .tolerance(
                "n = (x − mean)/sqrt(var + eps): 40·ε₃₂·mean|x|/sqrt(var + eps) and |n|·(64·ε₃₂ + what the "
                "mean's "
                "error is of the variance), times weight; 4·ε₃₂ of the result; SiLU as activation's, times "
                "1.13")
            .sizes("batch", {1, 1, 2, 3})
            .sizes("channels", {4, 8, 16, 32, 64, 96, 320})
            .sizes("spatial", {1, 5, 16, 64, 100, 600})
            .source(
                "torch.nn.functional.group_norm; triton_group_norm_silu, group_norm_silu_4d and _rows of "
                "SGLang's diffusion kernels");
    return contract;
}

}  // namespace weft
