// Fields, options and rules that a family of ops shares, described once: `Describe::with(family::...)`.
#pragma once

#include <optional>
#include <string>

#include "weft/contract.h"

namespace weft::family {

// The scale of an `out` that may be fp8: given for the tensor, or found for each row.
template <class Op>
void fp8_scales(Describe<Op>& op) {
    op.in("scale", &Op::scale, "1", DType::fp32, "the stored value times this is the real value")
        .optional()
        .fill(Fill::scale())
        .scale_of("out")
        .out("token_scale", &Op::token_scale, "...", DType::fp32, "each row's own scale, amax / max")
        .optional()
        .layout(Layout::dense)
        .scale_of("out")
        .excludes("scale");
}

// What the norms of rows read and write; the op says eps and the rounding.
template <class Op>
void row_norm(Describe<Op>& op) {
    op.in("x", &Op::x, "... dim", kFloat, "the rows")
        .in("weight", &Op::weight, "dim", kFloat, "absent: 1, without an offset")
        .optional()
        .in("bias", &Op::bias, "dim", kFloat, "added last")
        .optional()
        .in("residual", &Op::residual, "... dim", kFloat, "added to x before the norm")
        .optional()
        .out("residual_out", &Op::residual_out, "... dim", kFloat, "x + residual, as the norm reads it")
        .optional()
        .needs("residual")
        .like("residual")
        .in_place_of("residual")
        .in_place_of("x")
        .out("out", &Op::out, "... dim", kFloat | kFp8, "the normalised rows")
        .in_place_of("x")
        .in_place_of("residual")
        .with(fp8_scales<Op>)
        .option("weight_offset", &Op::weight_offset, -1.0f, 1.0f, "added to the weight", {0, 1})
        .require(+[](const Op& call) -> std::optional<Violation> {
            if (call.weight_offset == 0.0f || call.weight) return {};
            return Violation{"weight_offset", "expected 0 where there is no weight, got " +
                                                  std::to_string(call.weight_offset)};
        });
}

// Where a rotary embedding's angles come from: each token's position, and tables or a base. The op has
// tokens(), head_dim() and rotated().
template <class Op>
void rotary_angles(Describe<Op>& op, const char* positions_axes) {
    op.in("positions", &Op::positions, positions_axes, kIndex, "each token's position")
        .optional()
        .layout(Layout::strided)
        .fill(Fill::positions(32))
        .in("cos", &Op::cos, "table half", kFloat, "cosines by position, instead of computed ones")
        .optional()
        .needs("sin")
        .layout(Layout::strided)
        .fill(Fill::uniform(-1, 1))
        .in("sin", &Op::sin, "table half", kFloat, "sines by position")
        .optional()
        .needs("cos")
        .like("cos")
        .layout(Layout::strided)
        .fill(Fill::uniform(-1, 1))
        .option("pairs", &Op::pairs, {"half", "interleaved"}, "which elements of a head form a pair")
        .option("base", &Op::base, 1.0, 1e12, "the wavelengths' base", {10000, 1e6})
        .option("rotary_dim", &Op::rotary_dim, 0, 1 << 20, "elements of a head that turn; 0: all",
                {0, 0, 2, 16})
        .require(+[](const Op& call) -> std::optional<Violation> {
            const std::int64_t rotated = call.rotated();
            if (rotated % 2 == 0 && rotated <= call.head_dim()) return {};
            return Violation{"rotary_dim",
                             "expected an even number up to head_dim=" + std::to_string(call.head_dim()) +
                                 ", got " + std::to_string(rotated)};
        })
        .require(+[](const Op& call) -> std::optional<Violation> {
            if (!call.cos) return {};
            if (call.cos.dim(0) == 0 && call.tokens() > 0) {
                return Violation{"cos", "expected at least one row, got none"};
            }
            if (call.cos.dim(-1) * 2 == call.rotated()) return {};
            return Violation{"cos", "expected [table, half=" + std::to_string(call.rotated() / 2) +
                                        "] for rotary_dim=" + std::to_string(call.rotated()) +
                                        ", got half=" + std::to_string(call.cos.dim(-1))};
        });
}

// The arithmetic and the bytes of a rotary embedding that moves `elements` of `dtype`: of the tables, only the
// rows that are used.
template <class Op>
Work rotary_work(const Op& call, std::int64_t elements, DType dtype) {
    const auto moved = static_cast<double>(elements), tokens = static_cast<double>(call.tokens());
    Work work{.bytes = moved * 2 * bits(dtype) / 8, .flops = 3 * moved};
    if (call.positions) work.bytes += tokens * bits(call.positions.dtype) / 8;
    if (call.cos) work.bytes += tokens * static_cast<double>(call.rotated()) * bits(call.cos.dtype) / 8;
    return work;
}

}  // namespace weft::family
