// The host side of row kernels: operands, the plan's inputs, the choice of an instantiation.
#pragma once

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <type_traits>

#include "kit/row_store.cuh"
#include "weft/context.h"

namespace weft::inline WEFT_TARGET::kit {

inline RowOperand row_operand(const Tensor& tensor) {
    return tensor ? RowOperand{tensor.data, fold_rows(tensor)->stride, tensor.dtype} : RowOperand{};
}
// A vector that all rows share.
inline RowOperand shared_row(const Tensor& tensor) {
    return tensor ? RowOperand{tensor.data, 0, tensor.dtype} : RowOperand{};
}
inline RowInput row_input(const RowPlan& plan, const Tensor& x, const Tensor& residual,
                          const Tensor& residual_out) {
    return {row_operand(x), row_operand(residual), row_operand(residual_out), plan.keep};
}
inline RowOutput row_output(const Tensor& out, const Tensor& scale, const Tensor& token_scale) {
    return {row_operand(out), scale ? scale.as<float>() : nullptr,
            token_scale ? token_scale.as<float>() : nullptr};
}

// Whether the rows of all tensors that are there may be moved as vectors of `elements` elements.
inline bool rows_allow(int elements, std::initializer_list<const Tensor*> tensors) {
    for (const Tensor* tensor : tensors) {
        if (*tensor && (tensor->dim(-1) % elements != 0 || !rows_aligned(*tensor, elements))) return false;
    }
    return true;
}

// The problem of a kernel whose row is held as `dtype`; `inputs` begin with x, and all of them and `out` that are
// there have x's last axis. `form`: what is there.
inline RowProblem row_problem(DType dtype, std::initializer_list<const Tensor*> inputs, const Tensor& out,
                              RowForm form) {
    const Rows rows = *fold_rows(**inputs.begin());
    const int element_bytes = bits(dtype) / 8, width = 16 / element_bytes;
    const bool whole = rows_allow(width, inputs) && rows_allow(width, {&out});
    const auto same = [&](const Tensor* tensor) { return !*tensor || tensor->dtype == dtype; };
    form.fp8 = out.dtype == DType::fp8_e4m3 && element_bytes == 2;
    form.uniform = whole && std::all_of(inputs.begin(), inputs.end(), same) && (form.fp8 || same(&out));
    return {.rows = rows.rows, .dim = rows.dim, .element_bytes = element_bytes, .whole = whole, .form = form};
}

inline RowShape row_shape(const RowProblem& problem, const RowPlan& plan) {
    return {problem.rows, problem.dim, plan.lanes, std::countr_zero(static_cast<unsigned>(plan.lanes)),
            plan.cluster};
}

// Dependent, for row kernels wait before they touch memory.
inline LaunchShape row_launch(const RowPlan& plan, const RowProblem& problem) {
    return {
        .grid = dim3(static_cast<unsigned>(plan.blocks(problem.rows))),
        .block = dim3(static_cast<unsigned>(plan.threads())),
        .cluster = static_cast<unsigned>(plan.cluster),
        .balanced = fills_registers(plan.vectors),  // there are many rows: room counts, not which SM it is on
        .dynamic_shared = static_cast<std::size_t>(plan.shared(problem.dim, problem.element_bytes)),
        .dependent = true};
}

// Calls `use` with a null pointer to the row's element type.
template <class F>
void with_row_type(DType dtype, F use) {
    switch (dtype) {
        case DType::bf16: use(static_cast<bf16*>(nullptr)); break;
        case DType::fp16: use(static_cast<half*>(nullptr)); break;
        default: use(static_cast<float*>(nullptr)); break;
    }
}

// Calls `use` with a plan's form as a type. kOp is what calls of the op may have beside x and out; rows of fp32 do not
// become fp8 in a uniform kernel.
template <RowForm kOp, bool kWide, class F>
void with_row_form(const RowProblem& problem, const RowPlan& plan, F use) {
    const RowForm form = row_form(plan, problem);
    if (!form.uniform) return use(MixedForm<kOp>{});
    const auto with_flag = [](auto possible, bool value, auto next) {
        if constexpr (possible()) {
            if (value) return next(std::true_type{});
        }
        next(std::false_type{});
    };
    with_flag(std::bool_constant<kOp.residual>{}, form.residual, [&](auto residual) {
        with_flag(std::bool_constant < kOp.fp8 && !kWide > {}, form.fp8, [&](auto fp8) {
            const auto with_scope = [&]<GroupScope kScope>() {
                use(FormOf<true, decltype(residual)::value, decltype(fp8)::value, kOp.bias, kScope>{});
            };
            switch (form.scope) {
                case GroupScope::warp: return with_scope.template operator()<GroupScope::warp>();
                case GroupScope::cluster: return with_scope.template operator()<GroupScope::cluster>();
                default: return with_scope.template operator()<GroupScope::block>();
            }
        });
    });
}

// Calls `use` with a null pointer to the element type, the elements of a vector and the number of vectors as constants,
// and an object of the form's type (FormOf).
template <RowForm kOp, class F>
void with_row_kernel(DType dtype, const RowProblem& problem, const RowPlan& plan, F use) {
    with_row_type(dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        const auto with_vectors = [&](auto width, auto form) {
            const auto call = [&](auto vectors) {
                if constexpr (weft::detail::row_compiled(vectors(), width(), form.kForm))
                    use(type, width, vectors, form);
            };
            switch (plan.vectors) {
                case 1: return call(std::integral_constant<int, 1>{});
                case 2: return call(std::integral_constant<int, 2>{});
                case 4: return call(std::integral_constant<int, 4>{});
                case 8: return call(std::integral_constant<int, 8>{});
                case kSharedRow: return call(std::integral_constant<int, kSharedRow>{});
                default: return call(std::integral_constant<int, kStreamedRow>{});
            }
        };
        with_row_form<kOp, sizeof(T) == 4>(problem, plan, [&](auto form) {
            if (plan.width > 1)
                return with_vectors(std::integral_constant<int, 16 / static_cast<int>(sizeof(T))>{}, form);
            if constexpr (!form.kForm.uniform) with_vectors(std::integral_constant<int, 1>{}, form);
        });
    });
}

}  // namespace weft::inline WEFT_TARGET::kit
