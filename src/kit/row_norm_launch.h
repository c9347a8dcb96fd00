// The host side of row norms (kit/row_norm.cuh): an op has x, weight, bias, residual, residual_out, out, scale,
// token_scale, eps and weight_offset (family::row_norm).
#pragma once

#include <algorithm>

#include "kit/launch.h"
#include "kit/row_launch.h"
#include "kit/row_norm.cuh"

namespace weft::inline WEFT_TARGET::kit {

// What a row is held as between load and store.
template <class Op>
DType norm_dtype(const Op& op) {
    return op.residual ? op.residual.dtype : op.x.dtype;
}

// `forms`: what the norm's uniform kernels may have; one that seldom has a bias is spared its registers.
template <class Op>
RowProblem norm_problem(const Op& op, const RowForm& forms = {}) {
    RowProblem problem =
        row_problem(norm_dtype(op), {&op.x, &op.weight, &op.bias, &op.residual, &op.residual_out}, op.out,
                    {.residual = static_cast<bool>(op.residual), .bias = forms.bias});
    if (op.bias && !forms.bias) problem.form.uniform = false;
    return problem;
}

template <class Op>
RowNorm row_norm(const Op& op, const RowProblem& rows, const RowPlan& plan) {
    return {.shape = row_shape(rows, plan),
            .in = row_input(plan, op.x, op.residual, op.residual_out),
            .weight = shared_row(op.weight),
            .bias = shared_row(op.bias),
            .to = row_output(op.out, op.scale, op.token_scale),
            .eps = op.eps,
            .weight_offset = op.weight_offset,
            .inverse_dim = 1.0f / static_cast<float>(std::max<std::int64_t>(1, rows.dim))};
}

template <RowForm kForms, class Op>
std::string norm_config(const Op& op, const DeviceInfo& device) {
    return to_string(plan_rows(norm_problem(op, kForms), device));
}

// `kernel(type, width, vectors, form)` is the instantiation for a plan (with_row_kernel).
template <RowForm kForms, class Op, class Kernel>
void launch_norm(const char* name, const Op& op, Context& context, Kernel kernel) {
    const RowProblem rows = norm_problem(op, kForms);
    const RowPlan plan = context.slot<RowPlans>().find(rows, context.info());
    with_row_kernel<kForms>(norm_dtype(op), rows, plan, [&](auto* type, auto width, auto vectors, auto form) {
        launch(name, kernel(type, width, vectors, form), row_launch(plan, rows), context.stream(),
               row_norm(op, rows, plan));
    });
}

}  // namespace weft::inline WEFT_TARGET::kit
