// reduce: the sum, mean, maximum or largest magnitude of rows.
#pragma once

#include <optional>
#include <string>

#include "weft/contract.h"

namespace weft {

// Of x, or of x · factor: with a factor the sum is a dot product. A whole tensor is one row: a view of one axis.
//
// Floating inputs are summed in fp32, in an order that is the same in every run; int8 is summed exactly and, where
// the result is an integer, saturates at its limits. A maximum is exact; NaN anywhere makes it NaN.
struct Reduce {
    static constexpr std::string_view kName = "reduce";
    enum class Kind { sum, mean, max, amax };

    Tensor x{}, factor{}, out{};
    Kind kind = Kind::sum;

    static const Contract& contract();
};

inline const Contract& Reduce::contract() {
    using Op = Reduce;
    static const DTypeSet kOperand = kFloat | kFp8 | DType::int8, kResult = kFloat | kIndex;
    static const Contract contract =
        Describe<Op>(std::string(kName), "out = sum, mean, max or max |·| of x · factor")
            .in("x", &Op::x, "... dim", kOperand, "what is reduced")
            .in("factor", &Op::factor, "... dim", kOperand, "multiplies x, element by element")
            .optional()
            .like("x")
            .out("out", &Op::out, "...", kResult, "one result a row")
            .layout(Layout::dense)
            .option("kind", &Op::kind, {"sum", "mean", "max", "amax"}, "what is found")
            .require(+[](const Op& op) -> std::optional<Violation> {
                if (!is_floating(op.out.dtype) && (op.x.dtype != DType::int8 || op.kind == Kind::mean))
                    return Violation{"out",
                                     "expected a floating dtype: only sums and maxima of int8 are integers"};
                if (op.kind == Kind::max && op.x.dim(-1) == 0 && op.out.numel() > 0)
                    return Violation{"x", "expected at least one element to find the maximum of, got none"};
                return {};
            })
            .flops(+[](const Op& op) { return static_cast<double>(op.x.numel()) * (op.factor ? 2 : 1); })
            .independent({"..."})
            .tolerance(
                "(64 + n/2²⁰)·ε₃₂·Σ|x·factor| for n terms, 2·ε₃₂ of a mean's quotient; maxima exact, with a "
                "factor within ε₃₂; int8 exact but for its rounding to a floating dtype")
            .sizes("dim", {1, 2, 7, 8, 31, 64, 100, 256, 1000, 4096, 20000})
            .source(
                "torch.sum, mean, amax, dot; block_all_reduce_sum_* and dot_prod_* of teaching libraries; "
                "row "
                "statistics");
    return contract;
}

}  // namespace weft
