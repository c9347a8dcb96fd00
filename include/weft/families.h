// Fields, options and rules that a family of ops shares, described once: `Describe::with(family::...)`.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "weft/contract.h"
#include "weft/narrow.h"

namespace weft::family {

// The columns of a group, by the dtype of its scale.
inline DTypeSizes group_sizes(std::initializer_list<DType> scales) {
    DTypeSizes sizes;
    for (const DType dtype : scales) sizes.emplace_back(dtype, group_columns(dtype));
    return sizes;
}

// The scales of the tensor `codes`, which may be stored in fewer bits: for the tensor, for each row, or for groups of a
// row's columns (weft/narrow.h), of which NVFP4's stand under the tensor's. `columns` is their axis. `found`: out where
// the op writes the scales of rows and groups, in where it reads them.
template <class Op, Tensor Op::* kCodes>
void narrow_scales(Describe<Op>& op, const char* codes, const std::string& columns, Role found) {
    const auto scale = [&](const char* name, Tensor Op::* member, const std::string& axes, DTypeSet dtypes,
                           const char* meaning, Layout layout) -> Describe<Op>& {
        (found == Role::out ? op.out(name, member, axes, dtypes, meaning)
                            : op.in(name, member, axes, dtypes, meaning).fill(Fill::scale()))
            .optional()
            .layout(layout)
            .scale_of(codes);
        return op;
    };
    const auto of_groups = [&](const char* name, Tensor Op::* member, const std::string& axes,
                               const char* meaning, Layout layout) -> Describe<Op>& {
        const DType fp32 = DType::fp32, ue4m3 = DType::fp8_e4m3, ue8m0 = DType::ue8m0;
        return scale(name, member, axes, {fp32, ue4m3, ue8m0}, meaning, layout)
            .sizes_by_dtype("group", group_sizes({fp32, ue4m3, ue8m0}))
            .dtype_beside(codes, {{DType::fp8_e4m3, {fp32, ue8m0}},
                                  {DType::fp8_e5m2, {fp32, ue8m0}},
                                  {DType::fp4_e2m1, {ue4m3, ue8m0}}})
            .excludes("token_scale");
    };
    op.in("scale", &Op::scale, "1", DType::fp32, "the stored value times this is the real value")
        .optional()
        .fill(Fill::scale())
        .scale_of(codes);
    scale("token_scale", &Op::token_scale, "...", DType::fp32, "each row's own scale, amax / max",
          Layout::dense)
        .excludes("scale");
    of_groups("group_scale", &Op::group_scale, "... ceil(" + columns + "/group)",
              "each group's: fp32 for 128 columns, fp8_e4m3 for 16 (NVFP4), ue8m0 for 32 (MX)",
              Layout::strided);
    of_groups("swizzled_scale", &Op::swizzled_scale, "pad(...,128) pad(ceil(" + columns + "/group),4)",
              "the same in tiles of 128 rows by 4 groups, padding is 0", Layout::dense)
        .excludes("group_scale");
    op.require(+[](const Op& call) -> std::optional<Violation> {
        const Tensor& groups = call.group_scale ? call.group_scale : call.swizzled_scale;
        if (call.group_scale && !leading_stride(call.group_scale, 1))
            return Violation{"group_scale", "the leading axes must fold into rows of one stride"};
        if ((call.*kCodes).dtype == DType::fp4_e2m1 && !groups)
            return Violation{"group_scale",
                             "expected group_scale or swizzled_scale for fp4_e2m1, got neither"};
        if (call.scale && groups && groups.dtype != DType::fp8_e4m3)
            return Violation{"scale",
                             "expected none beside groups, unless their scales are fp8_e4m3 (NVFP4)"};
        return {};
    });
}

// The scales of blocks of 128 rows by 128 columns of fp8. What else may be there is narrow_scales', and tensor_scale.
template <class Op>
void block_scale(Describe<Op>& op, const char* codes, Role found) {
    constexpr const char *kAxes = "ceil(.../128) ceil(dim/128)",
                         *kMeaning = "each block's of 128 rows by 128 columns";
    (found == Role::out
         ? op.out("block_scale", &Op::block_scale, kAxes, DType::fp32, kMeaning)
         : op.in("block_scale", &Op::block_scale, kAxes, DType::fp32, kMeaning).fill(Fill::scale()))
        .optional()
        .layout(Layout::strided)
        .dtype_beside(codes, {{DType::fp8_e4m3, {DType::fp32}}, {DType::fp8_e5m2, {DType::fp32}}});
    for (const char* other : {"scale", "token_scale", "group_scale", "swizzled_scale"}) op.excludes(other);
}

// One factor a column, which values are multiplied by before they are stored in fewer bits.
template <class Op>
void channel_multiplier(Describe<Op>& op, const char* columns) {
    op.in("channel_multiplier", &Op::channel_multiplier, columns, kFloat,
          "multiplies each column first: AWQ's inverse scales")
        .optional();
}

// What a normalised row is multiplied by and what is added then (adaptive norms: AdaLN, AdaRMS), for one output or two.
template <class Op>
void modulation(Describe<Op>& op) {
    op.in("mod_index", &Op::mod_index, "...", kIndex, "each row's row of the tables mod_scale and mod_shift")
        .optional()
        .layout(Layout::dense)
        .fill(Fill::index("table"))
        .in("mod_scale", &Op::mod_scale, "~... dim", kFloat,
            "with mod_offset, multiplies the row after the norm")
        .optional()
        .picked_by("mod_index", "table dim")
        .in("mod_shift", &Op::mod_shift, "~... dim", kFloat, "added then")
        .optional()
        .picked_by("mod_index", "table dim")
        .in("mod_scale2", &Op::mod_scale2, "~... dim", kFloat, "mod_scale of out2")
        .optional()
        .needs("out2")
        .picked_by("mod_index", "table dim")
        .in("mod_shift2", &Op::mod_shift2, "~... dim", kFloat, "mod_shift of out2")
        .optional()
        .needs("out2")
        .picked_by("mod_index", "table dim")
        .option("mod_offset", &Op::mod_offset, 0.0f, 1.0f, "added to mod_scale and mod_scale2", {0, 1})
        .option("mod_tanh", &Op::mod_tanh, "tanh of mod_scale, instead of itself")
        .require(+[](const Op& call) -> std::optional<Violation> {
            if (!call.mod_index || call.mod_scale || call.mod_shift || call.mod_scale2 || call.mod_shift2)
                return {};
            return Violation{"mod_index", "expected a table beside it, mod_scale or mod_shift"};
        })
        .require(+[](const Op& call) -> std::optional<Violation> {
            const bool empty = call.mod_index && call.mod_index.numel() > 0;
            for (const auto& [field, table] :
                 {std::pair{"mod_scale", &call.mod_scale}, std::pair{"mod_shift", &call.mod_shift},
                  std::pair{"mod_scale2", &call.mod_scale2}, std::pair{"mod_shift2", &call.mod_shift2}}) {
                if (empty && *table && table->dim(0) == 0)
                    return Violation{field, "expected at least one row"};
            }
            return {};
        });
}

// What the norms of rows read and write; the op says eps and the rounding.
template <class Op>
void row_norm(Describe<Op>& op) {
    op.in("x", &Op::x, "... dim", kFloat, "the rows")
        .layout(Layout::inner)
        .in("weight", &Op::weight, "dim", kFloat, "absent: 1, without an offset")
        .optional()
        .in("bias", &Op::bias, "dim", kFloat, "added after the weight")
        .optional()
        .in("residual", &Op::residual, "... dim", kFloat, "added to x before the norm")
        .optional()
        .layout(Layout::inner)
        .in("gate", &Op::gate, "~... dim", kFloat, "what x is multiplied by before the sum; absent: 1")
        .optional()
        .needs("residual")
        .out("residual_out", &Op::residual_out, "... dim", kFloat,
             "residual + gate · x, as the norm reads it")
        .optional()
        .needs("residual")
        .like("residual")
        .layout(Layout::inner)
        .in_place_of("residual")
        .in_place_of("x")
        .with(modulation<Op>)
        .out("out", &Op::out, "... dim", kFloat | kNarrow, "the normalised rows")
        .layout(Layout::inner)
        .in_place_of("x")
        .in_place_of("residual")
        .with(narrow_scales<Op, &Op::out>, "out", "dim", Role::out)
        .out("out2", &Op::out2, "... dim", kFloat, "the same rows, modulated by mod_scale2 and mod_shift2")
        .optional()
        .layout(Layout::inner)
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
        .fill(Fill::positions(32, "table").outside_is_defined())
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
