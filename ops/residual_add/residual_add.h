// residual_add: out = x + residual (+ bias).
#pragma once

#include "weft/contract.h"

namespace weft {

// The addition that closes a transformer's sub-layer. One fp32 sum in the order ((x + bias) + residual),
// rounded once to out's dtype; out may be the memory of x or of residual.
struct ResidualAdd {
    static constexpr std::string_view kName = "residual_add";

    Tensor x{};         // [..., dim]
    Tensor residual{};  // [..., dim]
    Tensor bias{};      // [dim], optional
    Tensor out{};       // [..., dim]

    static const Contract& contract();
};

inline const Contract& ResidualAdd::contract() {
    static const Contract c =
        Describe<ResidualAdd>(std::string(kName), "out = x + bias + residual")
            .in("x", &ResidualAdd::x, "... dim", kFloat, "the sub-layer's result")
            .in("residual", &ResidualAdd::residual, "... dim", kFloat, "the stream it is added to")
            .in("bias", &ResidualAdd::bias, "dim", kFloat, "added to every row")
            .optional()
            .out("out", &ResidualAdd::out, "... dim", kFloat, "the sum")
            .in_place_of("x")
            .in_place_of("residual")
            .flops(
                +[](const ResidualAdd& op) { return static_cast<double>(op.x.numel()) * (op.bias ? 2 : 1); })
            .independent({"..."})
            .tolerance(
                "half an ulp of out; with a bias plus 2 fp32 roundings: k = 2 times (|x + bias| + |sum|)")
            .source("bias_residual, residual_add of VLA engines; torch.add");
    return c;
}

}  // namespace weft
