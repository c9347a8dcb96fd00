// residual_add: out = (x + bias) · gate + residual.
#pragma once

#include <optional>
#include <utility>

#include "weft/contract.h"
#include "weft/rounding.h"

namespace weft {

// The addition that closes a transformer's sub-layer, in fp32 in the order ((x + bias) · gate) + residual, rounded once
// to out's dtype; out may be the memory of x or of residual. The gate broadcasts to x's rows (weft/row_map.h), or each row
// of x picks its row of it by `index`.
//
// rounding=eager rounds after each step, as PyTorch's operators on tensors of one dtype do.
struct ResidualAdd {
    static constexpr std::string_view kName = "residual_add";

    Tensor x{};         // [..., dim]
    Tensor residual{};  // [..., dim]
    Tensor bias{};      // [dim], optional
    Tensor index{};     // [...], optional
    Tensor gate{};      // broadcasts to [..., dim], or a table [rows, dim] beside index; optional
    Tensor out{};       // [..., dim]
    Rounding rounding = Rounding::fused;

    static const Contract& contract();
};

inline const Contract& ResidualAdd::contract() {
    using Op = ResidualAdd;
    static const Contract c =
        Describe<Op>(std::string(kName), "out = (x + bias) · gate + residual")
            .in("x", &Op::x, "... dim", kFloat, "the sub-layer's result")
            .layout(Layout::inner)
            .in("residual", &Op::residual, "... dim", kFloat, "the stream it is added to")
            .layout(Layout::inner)
            .in("bias", &Op::bias, "dim", kFloat, "added to every row")
            .optional()
            .in("index", &Op::index, "...", kIndex, "each row's row of the table gate")
            .optional()
            .needs("gate")
            .layout(Layout::dense)
            .fill(Fill::index("table"))
            .in("gate", &Op::gate, "~... dim", kFloat, "multiplies x + bias; absent: 1")
            .optional()
            .picked_by("index", "table dim")
            .out("out", &Op::out, "... dim", kFloat, "the sum")
            .layout(Layout::inner)
            .in_place_of("x")
            .in_place_of("residual")
            .option("rounding", &Op::rounding, {"fused", "eager"},
                    "once at the end, or as PyTorch's operators")
            .require(+[](const Op& op) -> std::optional<Violation> {
                if (!op.index || op.index.numel() == 0 || op.gate.dim(0) > 0) return {};
                return Violation{"gate", "expected at least one row"};
            })
            .require(+[](const Op& op) -> std::optional<Violation> {
                if (op.rounding == Rounding::fused) return {};
                for (const auto& [field, tensor] :
                     {std::pair{"residual", &op.residual}, std::pair{"bias", &op.bias},
                      std::pair{"gate", &op.gate}, std::pair{"out", &op.out}}) {
                    if (!*tensor || tensor->dtype == op.x.dtype) continue;
                    return Violation{field, "expected x's dtype with rounding=eager, got " +
                                                std::string(name(tensor->dtype))};
                }
                return {};
            })
            .flops(+[](const Op& op) {
                return static_cast<double>(op.x.numel()) * (1 + (op.bias ? 1 : 0) + (op.gate ? 1 : 0));
            })
            .independent({"..."})
            .tolerance(
                "half an ulp of out, and ε₃₂ for each fp32 operation before the last: of |x + bias| times "
                "|gate|, of |(x + bias)·gate|, of |out|; with rounding=eager none")
            .source(
                "bias_residual, residual_add of VLA engines; residual_gate_add, indexed_gate of diffusion "
                "engines; torch.add, torch.addcmul");
    return c;
}

}  // namespace weft
