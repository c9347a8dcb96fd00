// channel_rms_norm: the channels of each place brought to length √channels.
#pragma once

#include <optional>
#include <string>
#include <tuple>

#include "weft/activation.h"
#include "weft/contract.h"
#include "weft/rounding.h"

namespace weft {

// out = act(x / max(‖x‖₂, eps) · √channels · weight + bias), the norm over the channels of one place. `spatial` is the
// places as one axis: of channels-first tensors and of channels-last ones a view, whatever their strides.
//
// It is a root-mean-square norm whose eps is a floor of the length, not a part of the mean.
//
// With `length` the norm is given, a number for each place that x is divided by, and eps has no part. rounding=eager then
// has the bits of act(x / length * √channels * weight + bias) in PyTorch, every step rounded to out's dtype; without
// `length` there are no such bits, since PyTorch's sum has an order of its own.
struct ChannelRmsNorm {
    static constexpr std::string_view kName = "channel_rms_norm";
    using Activation = weft::Activation;

    Tensor x{}, weight{}, bias{}, length{}, out{};
    float eps = 1e-12f;
    Activation activation = Activation::none;
    Rounding rounding = Rounding::fused;

    static const Contract& contract();
};

inline const Contract& ChannelRmsNorm::contract() {
    using Op = ChannelRmsNorm;
    static const Contract contract =
        Describe<Op>(std::string(kName),
                     "out = act(x / max(‖x‖₂, eps) · √channels · weight + bias) over channels")
            .in("x", &Op::x, "batch channels spatial", kFloat, "channels first, or a view of channels last")
            .layout(Layout::strided)
            .in("weight", &Op::weight, "channels", kFloat, "absent: 1")
            .optional()
            .in("bias", &Op::bias, "channels", kFloat, "absent: 0")
            .optional()
            .in("length", &Op::length, "batch 1 spatial", kFloat, "divides x; absent: max(‖x‖₂, eps)")
            .optional()
            .layout(Layout::strided)
            .fill(Fill::uniform(0.5, 8))
            .out("out", &Op::out, "batch channels spatial", kFloat, "the normalised tensor")
            .layout(Layout::strided)
            .in_place_of("x")
            .option("eps", &Op::eps, 1e-30, 1e30, "the least length that is divided by", {1e-12, 1e-6, 10})
            .option("activation", &Op::activation, {Activation::none, Activation::silu}, "applied last")
            .option("rounding", &Op::rounding, {"fused", "eager"},
                    "once at the end, or as PyTorch's operators")
            .require(+[](const Op& op) -> std::optional<Violation> {
                if (op.rounding == Rounding::fused) return {};
                if (!op.length) return Violation{"rounding", "expected fused without length"};
                if (op.length.dtype != op.out.dtype)
                    return Violation{"length", "expected out's dtype with rounding=eager, got " +
                                                   std::string(name(op.length.dtype))};
                for (const auto& [field, tensor] : {std::tuple{"x", &op.x}, std::tuple{"weight", &op.weight},
                                                    std::tuple{"bias", &op.bias}}) {
                    if (!*tensor || op.out.dtype == DType::fp32 || tensor->dtype == op.out.dtype) continue;
                    return Violation{field, "expected out's dtype with rounding=eager, got " +
                                                std::string(name(tensor->dtype))};
                }
                return {};
            })
            .flops(+[](const Op& op) { return 6.0 * static_cast<double>(op.x.numel()); })
            .independent({"batch", "spatial"})
            .tolerance(
                "(24 + channels/32)·ε₃₂·|n·weight|, n = x/max(‖x‖₂, eps)·√channels, and 2·ε₃₂ of the result; "
                "SiLU "
                "as activation's, times 1.13; with rounding=eager none but SiLU's")
            .sizes("batch", {1, 1, 2})
            .sizes("channels", {1, 3, 8, 16, 32, 96, 100, 256, 1024})
            .sizes("spatial", {1, 5, 16, 64, 100})
            .source(
                "WanRMS_norm of diffusers; wan_rmsnorm_silu, wan_norm_silu_post, channel_rmsnorm_silu_nhwc "
                "of "
                "SGLang's diffusion kernels");
    return contract;
}

}  // namespace weft
