// The host side of row norms (kit/row_norm.cuh): an op has the fields and options of family::row_norm, and eps.
#pragma once

#include <algorithm>

#include "kit/row_launch.h"
#include "kit/row_norm.cuh"
#include "kit/row_quantize.cuh"
#include "weft/rounding.h"

namespace weft::inline WEFT_TARGET::kit {

// What a row is held as between load and store.
template <class Op>
DType norm_dtype(const Op& op) {
    return op.residual ? op.residual.dtype : op.x.dtype;
}

// Whether the modulation of a norm without weight and bias takes their place: one affine map in all. PyTorch's operators
// round between the two.
template <class Op>
bool modulates_alone(const Op& op) {
    return !op.weight && !op.bias && !op.out2 && !op.mod_tanh && op.rounding == Rounding::fused;
}

// Whether some output is modulated by something that is not in the weight's place.
template <class Op>
bool modulates(const Op& op) {
    return op.mod_scale2 || op.mod_shift2 || (!modulates_alone(op) && (op.mod_scale || op.mod_shift));
}

// The operands of a call, where a kernel finds them.
template <class Op>
MixedNorm bind_norm(const Op& op) {
    MixedNorm p;
    RowAffine& first = modulates_alone(op) ? p.weight : p.maps[1];
    bind_rows(p.shape, p.places, op.x,
              {{&op.x, &p.in.x},
               {&op.residual, &p.in.residual},
               {&op.residual_out, &p.in.residual_out},
               {&op.gate, &p.in.gate},
               {&op.weight, &p.weight.scale},
               {&op.bias, &p.weight.shift},
               {&op.mod_scale, &first.scale, &op.mod_index},
               {&op.mod_shift, &first.shift, &op.mod_index},
               {&op.mod_scale2, &p.maps[2].scale, &op.mod_index},
               {&op.mod_shift2, &p.maps[2].shift, &op.mod_index},
               {&op.out, &p.to.out},
               {&op.out2, &p.second.out}});
    p.weight.offset = op.weight_offset;
    for (RowAffine* map : {&first, &p.maps[2]}) {
        if (map->scale.data == nullptr) continue;
        map->offset = op.mod_offset;
        map->tanh = op.mod_tanh;
    }
    p.maps[0] = p.weight;
    return p;
}

// Whether all tensors that are there are stored as `dtype` and as long as the row.
inline bool rows_of(DType dtype, const RowProblem& problem, std::initializer_list<const Tensor*> tensors) {
    return std::all_of(tensors.begin(), tensors.end(), [&](const Tensor* t) {
        return !*t || (t->dtype == dtype && t->rank > 0 && t->dim(-1) == problem.dim);
    });
}

// Whether a call of a problem that is not uniform has kernels that modulate rows of 16 bits (RowForm::modulated); `wide`: what
// is beside the row is of fp32.
template <class Op>
bool has_modulated_kernel(const Op& op, const RowKernels& kernels, const RowProblem& problem, RowsBy by,
                          bool wide) {
    const DType dtype = norm_dtype(op);
    const bool tanh = op.mod_tanh && (op.mod_scale || op.mod_scale2);
    return kernels.modulated && bits(dtype) == 16 && problem.whole() && by != RowsBy::place &&
           problem.rows >> 31 == 0 && !tanh && !op.group_scale && !op.swizzled_scale &&
           rows_of(dtype, problem, {&op.x, &op.residual, &op.residual_out, &op.gate, &op.out, &op.out2}) &&
           rows_of(wide ? DType::fp32 : dtype, problem,
                   {&op.weight, &op.bias, &op.mod_scale, &op.mod_shift, &op.mod_scale2, &op.mod_shift2});
}

// Whether a call of a problem that is not uniform is so but for a weight and a bias of fp32 (RowForm::wide). `scale`, `shift`:
// what is in their place.
template <class Op>
bool has_wide_kernel(const Op& op, const RowKernels& kernels, const RowProblem& problem, RowsBy by,
                     const Tensor& scale, const Tensor& shift) {
    const DType dtype = norm_dtype(op);
    return kernels.wide && bits(dtype) == 16 && problem.whole() && by == RowsBy::strides &&
           problem.rows >> 31 == 0 && (!kernels.plain || !shift) &&
           rows_of(dtype, problem, {&op.x, &op.residual, &op.residual_out, &op.gate, &op.out, &op.out2}) &&
           rows_of(DType::fp32, problem, {&scale, &shift});
}

// The form of a call whose problem is not uniform. Of any rows, bare, where there is little beside a row: these kernels are
// the shortest (RowForm::bare). Else with operands beside rows that are stored alike, in whole vectors; of any rows; or of a
// mixed kernel. All but the last have results of 16 bits or more, or but for bare ones codes of eight bits, or with operands
// beside such rows codes with scales of groups.
template <class Op>
RowForm side_form(const Op& op, const RowKernels& kernels, const RowProblem& problem, RowsBy by) {
    const DType dtype = norm_dtype(op), out = op.out.dtype;
    const auto of_row = [&](const Tensor& t) { return !t || t.dtype == dtype; };
    const bool alike =
        problem.whole() && of_row(op.x) && of_row(op.residual_out) && by != RowsBy::place && kernels.beside;
    const bool groups = op.group_scale || op.swizzled_scale;
    const bool stored = groups ? alike : bits(out) >= 8;
    if (!stored || problem.rows >> 31 != 0) return {};
    const bool tanh = op.mod_tanh && (op.mod_scale || op.mod_scale2);
    const bool bare = by == RowsBy::strides && !groups && !op.gate && !op.token_scale && !tanh &&
                      bits(out) >= 16 && (!op.out2 || bits(op.out2.dtype) >= 16);
    const bool any = kernels.any && (bare || !alike);
    if (!any && !alike) return {};
    return {.uniform = true, .beside = true, .any = any, .bare = any && bare};
}

// `kernels`: which uniform kernels the norm has; `by`: of bind_norm's shape.
template <class Op>
RowProblem norm_problem(const Op& op, const RowKernels& kernels, RowsBy by) {
    const bool alone = modulates_alone(op);
    RowProblem problem = row_problem(norm_dtype(op),
                                     {&op.x, &op.weight, &op.bias, &op.residual, &op.residual_out, &op.gate,
                                      &op.mod_scale, &op.mod_shift, &op.mod_scale2, &op.mod_shift2},
                                     {&op.out, &op.out2}, kernels,
                                     {.bias = static_cast<bool>(alone ? op.mod_shift : op.bias),
                                      .residual = static_cast<bool>(op.residual)},
                                     by);
    const bool modulated = modulates(op);
    if (modulated) problem.form.uniform = false;
    if (const Tensor& scales = op.group_scale ? op.group_scale : op.swizzled_scale) {
        problem.form.uniform = false;
        problem.group_lanes = problem.whole() ? group_columns(scales.dtype) / kOctet : 1;
    }
    problem.outputs = op.out2 ? 2 : 1;
    if (!problem.form.uniform && !modulated &&
        has_wide_kernel(op, kernels, problem, by, alone ? op.mod_scale : op.weight,
                        alone ? op.mod_shift : op.bias))
        problem.form = {.uniform = true, .bias = !kernels.plain, .fp8 = false, .wide = true};
    for (const bool wide : {false, true}) {
        if (!problem.form.uniform && (modulated || by == RowsBy::picks) &&
            has_modulated_kernel(op, kernels, problem, by, wide))
            problem.form = {.uniform = true, .fp8 = false, .wide = wide, .modulated = true};
    }
    if (!problem.form.uniform) problem.form = side_form(op, kernels, problem, by);
    // An octet of fp32 is two stores, each of half of every 32 bytes that a warp writes: these go to L2 twice, which many wait
    // for.
    constexpr std::int64_t kMany = std::int64_t{1} << 21;
    const bool wide_out = op.out.dtype == DType::fp32 || (op.out2 && op.out2.dtype == DType::fp32);
    if (problem.form.bare && wide_out && problem.rows * problem.dim >= kMany)
        problem.piece = std::min(problem.piece, 4);
    return problem;
}

// Groups of rows that are no whole vectors are found in a pass of their own, over the normalised rows in fp32.
template <class Op>
bool groups_apart(const Op& op, const RowProblem& rows) {
    return (op.group_scale || op.swizzled_scale) && !rows.whole();
}

template <class Op>
const char* decline_norm(const Op& op) {
    return groups_apart(op, norm_problem(op, {}, RowsBy::strides)) && !fold_rows(op.out)
               ? "rows with scales of groups must be whole vectors, or fold into rows of one stride"
               : nullptr;
}

// What     out = y over the scales of its groups, y a norm's rows in fp32
// Mapping  a thread owns 16 elements of a row: a group of NVFP4
// Traffic  y once, out and scales once: bound by memory
// Needs    tile_groups
template <class T>
__global__ void __launch_bounds__(256)
    store_groups_apart(PlainRows<T, kGroupWidth> y, GroupedRows out, RowTiles tiles) {
    dependency_wait();
    dependents_launch();
    quantize_groups(out, tiles, y, out.scale != nullptr ? *out.scale : 1.0f);
}

// The kernels for PyTorch's bits take four neighbouring elements at a time of every operand.
template <class Op>
const char* decline_eager_rows(const Op& op) {
    const bool aligned =
        rows_allow(4, {&op.x, &op.weight, &op.bias, &op.residual, &op.residual_out, &op.gate, &op.mod_scale,
                       &op.mod_shift, &op.mod_scale2, &op.mod_shift2, &op.out, &op.out2});
    return aligned ? nullptr : "every row must be aligned for 4 elements";
}

// What the plan and the options add to the operands.
template <class Op>
MixedNorm norm_params(MixedNorm p, const Op& op, const RowProblem& rows, const RowPlan& plan) {
    plan_shape(p.shape, rows, plan);
    p.in.keep = plan.keep;
    if (op.scale) p.to.scale = op.scale.template as<float>();
    if (op.token_scale) p.to.token_scale = op.token_scale.template as<float>();
    p.groups = group_scales(op.group_scale, op.swizzled_scale, rows.rows, rows.dim);
    p.outputs = op.out2 ? 2 : 1;
    p.modulated = modulates(op);
    p.eps = op.eps;
    p.inverse_dim = 1.0f / static_cast<float>(std::max<std::int64_t>(1, rows.dim));
    return p;
}

template <RowKernels kKernels, class Op>
std::string norm_config(const Op& op, const DeviceInfo& device) {
    return to_string(plan_rows(norm_problem(op, kKernels, bind_norm(op).shape.by), device));
}

template <RowKernels kKernels, class Op, class Kernel>
void launch_norm(const char* name, const Op& op, Context& context, Kernel kernel);

template <RowKernels kKernels, class Op, class Kernel>
void launch_norm_apart(const char* name, const Op& op, Context& context, Kernel kernel) {
    const std::int64_t rows = row_count(op.x), dim = op.x.dim(-1);
    Op normed = op;
    normed.out = Tensor(context.scratch(static_cast<std::size_t>(rows * dim) * sizeof(float)), DType::fp32,
                        std::span(op.out.shape, static_cast<std::size_t>(op.out.rank)), op.out.device);
    normed.scale = normed.group_scale = normed.swizzled_scale = {};
    launch_norm<kKernels>(name, normed, context, kernel);
    const GroupedRows out = grouped_rows(op.out, op.scale, op.group_scale, op.swizzled_scale, kGroupWidth);
    const RowTiles tiles = tile_groups(out.groups, context.info());
    launch("store_groups_apart", store_groups_apart<float>, tiles.shape(), context.stream(),
           PlainRows<float, kGroupWidth>{vector_rows(normed.out, kGroupWidth), {}, dim}, out, tiles);
}

// `kernel(type, width, vectors, form)` is the instantiation for a plan (with_row_kernel).
template <RowKernels kKernels, class Op, class Kernel>
void launch_norm(const char* name, const Op& op, Context& context, Kernel kernel) {
    const MixedNorm bound = bind_norm(op);
    const RowProblem rows = norm_problem(op, kKernels, bound.shape.by);
    if (groups_apart(op, rows)) return launch_norm_apart<kKernels>(name, op, context, kernel);
    const RowPlan plan = context.slot<RowPlans>().find(rows, context.info());
    const MixedNorm p = norm_params(bound, op, rows, plan);
    with_row_kernel<kKernels>(norm_dtype(op), rows, plan,
                              [&](auto* type, auto width, auto vectors, auto form) {
                                  launch(name, kernel(type, width, vectors, form), row_launch(plan, rows),
                                         context.stream(), static_cast<const NormOf<decltype(form)>&>(p));
                              });
}

}  // namespace weft::inline WEFT_TARGET::kit
