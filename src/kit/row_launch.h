// The host side of row kernels: operands, the plan's inputs, the choice of an instantiation.
#pragma once

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <type_traits>

#include "kit/launch.h"
#include "kit/row_store.cuh"
#include "weft/context.h"

namespace weft::inline WEFT_TARGET::kit {

// A tensor of a call, where a kernel finds it, and the tensor that picks its rows, if one does.
struct BoundOperand {
    const Tensor* tensor;
    RowOperand* operand;
    const Tensor* picks = nullptr;
};

// Host: fills in the operands that are there, over the fewest axes of x's rows that serve them all. The contract has
// seen to it that their axes are x's or broadcast to them. `width`: elements of a vector, for operands that say
// themselves whether they are aligned.
inline void bind_rows(RowShape& shape, RowPlaces& places, const Tensor& x,
                      std::initializer_list<BoundOperand> bound, int width = 1) {
    RowMap maps[kMaxRowOperands], *all[kMaxRowOperands];
    RowOperand* mapped[kMaxRowOperands];
    std::size_t count = 0;
    std::uint8_t number = 0;
    for (const BoundOperand& b : bound) {
        if (!*b.tensor) continue;
        RowOperand& operand = *b.operand;
        operand = {.data = b.tensor->data, .dtype = b.tensor->dtype};
        operand.number = number++;
        operand.aligned = width > 1 && rows_aligned(*b.tensor, width);
        operand.single = b.tensor->numel() > 0 && b.tensor->dim(-1) == 1 && x.dim(-1) != 1;
        if (b.picks != nullptr && *b.picks) {
            RowPlace& place = places.of[operand.number];
            operand.stride = b.tensor->stride[0];
            place.picks = b.picks->data;
            place.picks_dtype = b.picks->dtype;
            place.table = b.tensor->shape[0];
            shape.scattered = true;
        } else {
            maps[count] = *map_rows(*b.tensor, x);
            all[count] = &maps[count];
            mapped[count++] = &operand;
        }
    }
    fold_maps({all, count});
    places.axes = std::max(1, maps[0].axes);
    shape.scattered = shape.scattered || places.axes > 1;
    for (int axis = 1; axis < places.axes; ++axis) places.size[axis] = Divisor::of(maps[0].size[axis]);
    for (std::size_t i = 0; i < count; ++i) {
        mapped[i]->stride = maps[i].axes > 0 ? maps[i].stride[0] : 0;
        std::copy(maps[i].stride, maps[i].stride + maps[i].axes, places.of[mapped[i]->number].stride);
    }
}

// Whether the rows of all tensors that are there may be moved as vectors of `elements` elements; one element that
// stands for a row of `dim` is not moved so.
inline bool rows_allow(int elements, std::initializer_list<const Tensor*> tensors) {
    std::int64_t dim = 1;
    for (const Tensor* tensor : tensors) {
        if (*tensor && tensor->rank > 0) dim = std::max(dim, tensor->dim(-1));
    }
    for (const Tensor* tensor : tensors) {
        if (!*tensor || tensor->rank == 0 || tensor->dim(-1) != dim) continue;
        if (dim % elements != 0 || !rows_aligned(*tensor, elements)) return false;
    }
    return true;
}

// The problem of a kernel whose row is held as `dtype`. `inputs` begin with x; all of them and the outputs that are
// there have x's last axis, or one element. `kernels`: what the op has, of which `bias` says which is wanted.
inline RowProblem row_problem(DType dtype, std::initializer_list<const Tensor*> inputs,
                              std::initializer_list<const Tensor*> outputs, const RowKernels& kernels,
                              bool bias) {
    const Tensor& x = **inputs.begin();
    const Tensor& out = **outputs.begin();
    const int element_bytes = bits(dtype) / 8, width = 16 / element_bytes;
    const auto same = [&](const Tensor* t) {
        return !*t || (t->dtype == dtype && t->rank > 0 && t->dim(-1) == x.dim(-1));
    };
    const bool stored_so = same(&out) || (out.dtype == DType::fp8_e4m3 && element_bytes == 2);
    const bool one_output =
        std::none_of(outputs.begin() + 1, outputs.end(), [](const Tensor* t) { return !!*t; });
    // Of the two forms an fp32 row has one.
    const bool compiled =
        bias || !kernels.plain ? kernels.biased && (element_bytes == 2 || !kernels.plain) : true;
    RowProblem problem{.rows = row_count(x), .dim = x.dim(-1), .element_bytes = element_bytes};
    problem.whole = rows_allow(width, inputs) && rows_allow(width, outputs);
    problem.form.bias = bias || !kernels.plain;
    problem.form.uniform = problem.whole && stored_so && one_output && compiled &&
                           std::all_of(inputs.begin(), inputs.end(), same);
    return problem;
}

inline RowShape row_shape(const RowProblem& problem, const RowPlan& plan) {
    RowShape shape;
    shape.rows = problem.rows;
    shape.dim = problem.dim;
    shape.lanes = plan.lanes;
    shape.lanes_log2 = std::countr_zero(static_cast<unsigned>(plan.lanes));
    shape.cluster = plan.cluster;
    return shape;
}

// Dependent, for row kernels wait before they touch memory.
inline LaunchShape row_launch(const RowPlan& plan, const RowProblem& problem) {
    return {
        .grid = dim3(static_cast<unsigned>(plan.blocks(problem.rows))),
        .block = dim3(static_cast<unsigned>(plan.threads())),
        .cluster = static_cast<unsigned>(plan.cluster),
        .balanced = fills_registers(plan.vectors),  // there are many rows: room counts, not which SM it is on
        .dependent = true};
}

// Calls `use` with a null pointer to the row's element type.
template <class F>
void with_row_type(DType dtype, F use) {
    with_wide_type(dtype, use);
}

// Calls `use` with a null pointer to the element type, the elements of a vector and the number of vectors as constants,
// and an object of the form's type (FormOf).
template <RowKernels kKernels, class F>
void with_row_kernel(DType dtype, const RowProblem& problem, const RowPlan& plan, F use) {
    const RowForm wanted = row_form(plan, problem);
    with_row_type(dtype, [&](auto* type) {
        constexpr int kWidth = 16 / static_cast<int>(sizeof(*type));
        const auto with_vectors = [&](auto width, auto form) {
            const auto call = [&]<int kVectors>() {
                if constexpr (weft::detail::row_compiled(kVectors, width(), form.kForm))
                    use(type, width, std::integral_constant<int, kVectors>{}, form);
            };
            switch (plan.vectors) {
                case 1: return call.template operator()<1>();
                case 2: return call.template operator()<2>();
                case 4: return call.template operator()<4>();
                case 8: return call.template operator()<8>();
                case 16: return call.template operator()<16>();
                default: return call.template operator()<kStreamedRow>();
            }
        };
        constexpr std::integral_constant<int, kWidth> kWhole;
        if (plan.width == 1) return with_vectors(std::integral_constant<int, 1>{}, MixedForm{});
        if (!wanted.uniform) return with_vectors(kWhole, MixedForm{});
        if constexpr (kKernels.plain) {
            if (!wanted.bias) return with_vectors(kWhole, FormOf<true, false>{});
        }
        if constexpr (kKernels.biased && (!kKernels.plain || kWidth > 4))
            with_vectors(kWhole, FormOf<true, true>{});
    });
}

}  // namespace weft::inline WEFT_TARGET::kit
