// modulate: rows times a scale plus a shift, each of which may be one for all rows, a batch, a frame, a row or picked.
#pragma once

#include <optional>

#include "weft/contract.h"
#include "weft/rounding.h"

namespace weft {

// out = x · (offset + scale) + shift: the modulation of adaptive norms on its own, a gated residual (offset 0, shift the
// residual), the scaling of channels. scale and shift broadcast to x's rows (weft/row_map.h), or each row of x picks its
// row of them by `index`.
//
// Computed in fp32 and rounded once to out's dtype. rounding=eager rounds after each step, as PyTorch's operators on
// tensors of one dtype do: offset + scale, the product, the sum.
struct Modulate {
    static constexpr std::string_view kName = "modulate";

    Tensor x{}, index{}, scale{}, shift{}, out{};
    float offset = 1.0f;
    Rounding rounding = Rounding::fused;

    static const Contract& contract();
};

inline const Contract& Modulate::contract() {
    using Op = Modulate;
    static const Contract c =
        Describe<Op>(std::string(kName), "out = x · (offset + scale) + shift")
            .in("x", &Op::x, "... dim", kFloat, "the rows")
            .layout(Layout::inner)
            .in("index", &Op::index, "...", kIndex, "each row's row of the tables scale and shift")
            .optional()
            .layout(Layout::dense)
            .fill(Fill::index("table"))
            .in("scale", &Op::scale, "~... dim", kFloat, "with offset, multiplies x; absent: 1 in all")
            .optional()
            .picked_by("index", "table dim")
            .in("shift", &Op::shift, "~... dim", kFloat, "added then")
            .optional()
            .picked_by("index", "table dim")
            .out("out", &Op::out, "... dim", kFloat, "the modulated rows")
            .layout(Layout::inner)
            .in_place_of("x")
            .in_place_of("shift")
            .option("offset", &Op::offset, 0.0f, 1.0f, "added to scale", {0, 1})
            .option("rounding", &Op::rounding, {"fused", "eager"},
                    "once at the end, or as PyTorch's operators")
            .require(+[](const Op& op) -> std::optional<Violation> {
                if (op.index && !op.scale && !op.shift)
                    return Violation{"index", "expected a table beside it, scale or shift"};
                if (op.index && op.shift && op.out && op.out.numel() > 0 && op.out.data == op.shift.data)
                    return Violation{"out", "must not be the memory of shift where index picks its rows"};
                for (const auto& [field, table] :
                     {std::pair{"scale", &op.scale}, std::pair{"shift", &op.shift}}) {
                    if (op.index && op.index.numel() > 0 && *table && table->dim(0) == 0)
                        return Violation{field, "expected at least one row"};
                }
                return {};
            })
            .require(+[](const Op& op) -> std::optional<Violation> {
                if (op.rounding == Rounding::fused) return {};
                for (const auto& [field, tensor] :
                     {std::pair{"scale", &op.scale}, std::pair{"shift", &op.shift},
                      std::pair{"out", &op.out}}) {
                    if (!*tensor || tensor->dtype == op.x.dtype) continue;
                    return Violation{field, "expected x's dtype with rounding=eager, got " +
                                                std::string(name(tensor->dtype))};
                }
                return {};
            })
            .flops(+[](const Op& op) {
                return static_cast<double>(op.x.numel()) * ((op.scale ? 2 : 0) + (op.shift ? 1 : 0));
            })
            .independent({"..."})
            .tolerance(
                "ε₃₂·(2·|x·(offset + scale)| + |out|): the factor, the product and the sum round once each; "
                "with rounding=eager none: every step is rounded to out's dtype")
            .source(
                "fuse_scale_shift, modulate_scale_shift, indexed_scale_shift of diffusion engines; "
                "x * (1 + scale) + shift of diffusers' adaptive norms");
    return c;
}

}  // namespace weft
