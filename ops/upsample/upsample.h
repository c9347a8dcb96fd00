// upsample: every element repeated in time and space, or a channel's elements spread over them.
#pragma once

#include <optional>
#include <string>

#include "weft/contract.h"

namespace weft {

// out[t, h, w, c] = x[t / time_scale, h / height_scale, w / width_scale, c'] (+ residual).
//
// With shuffle = 1, c' = c: nearest neighbours. With shuffle = s, x has s times as many channels and the F = time_scale ·
// height_scale · width_scale elements that one element becomes come from s of them: number k of F, counted with width
// fastest, from c' = c·s + k·s/F. s = F is the pixel shuffle; what lies between is the shortcut of Wan 2.2's decoder.
//
// Any strides: channels-first tensors are views. With a residual one fp32 sum, rounded once.
struct Upsample {
    static constexpr std::string_view kName = "upsample";

    Tensor x{}, residual{}, out{};
    std::int64_t time_scale = 1, height_scale = 1, width_scale = 1, shuffle = 1;

    static const Contract& contract();
};

inline const Contract& Upsample::contract() {
    using Op = Upsample;
    static const Contract contract =
        Describe<Op>(std::string(kName),
                     "out[t, h, w, c] = x[t/time_scale, h/height_scale, w/width_scale, c'] + residual")
            .in("x", &Op::x, "... time height width shuffle*channels", kFloat, "what is repeated")
            .layout(Layout::strided)
            .in("residual", &Op::residual,
                "... time*time_scale height*height_scale width*width_scale channels", kFloat, "added to it")
            .optional()
            .layout(Layout::strided)
            .out("out", &Op::out, "... time*time_scale height*height_scale width*width_scale channels",
                 kFloat, "the larger tensor")
            .layout(Layout::strided)
            .in_place_of("residual")
            .option("time_scale", &Op::time_scale, 1, 1 << 16, "repeats in time", {1, 2})
            .option("height_scale", &Op::height_scale, 1, 1 << 16, "repeats along the height", {1, 2, 3})
            .option("width_scale", &Op::width_scale, 1, 1 << 16, "repeats along the width", {1, 2, 3})
            .option("shuffle", &Op::shuffle, 1, 1 << 16, "channels of x for one of out", {1, 1, 2, 4, 8})
            .require(+[](const Op& op) -> std::optional<Violation> {
                const std::int64_t all = op.time_scale * op.height_scale * op.width_scale;
                if (all % op.shuffle == 0) return {};
                return Violation{"shuffle", "expected a divisor of the " + std::to_string(all) +
                                                " elements that one becomes, got " +
                                                std::to_string(op.shuffle)};
            })
            .flops(+[](const Op& op) { return op.residual ? static_cast<double>(op.out.numel()) : 0.0; })
            .independent({"..."})
            .tolerance("half an ulp of out; with a residual plus one fp32 rounding")
            .sizes("time", {1, 1, 3})
            .sizes("height", {1, 2, 5})
            .sizes("width", {1, 3, 8})
            .sizes("channels", {1, 3, 8, 16, 40})
            .source(
                "torch.nn.functional.interpolate(mode=nearest), pixel_shuffle, repeat_interleave; "
                "nearest_upsample_nhwc, dup_up3d_add of SGLang's diffusion kernels; "
                "gpu_repeat_interleave_heads of "
                "VLA engines");
    return contract;
}

}  // namespace weft
