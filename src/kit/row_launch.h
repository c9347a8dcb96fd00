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
    bool narrow = true;
    const auto fits = [](std::int64_t stride) { return stride == static_cast<std::int32_t>(stride); };
    for (const BoundOperand& b : bound) {
        if (!*b.tensor) continue;
        RowOperand& operand = *b.operand;
        operand = {.data = b.tensor->data, .dtype = b.tensor->dtype};
        operand.number = number++;
        operand.aligned = width > 1 && rows_aligned(*b.tensor, width);
        operand.single = b.tensor->numel() > 0 && b.tensor->dim(-1) == 1 && x.dim(-1) != 1;
        if (b.picks != nullptr && *b.picks) {
            operand.rows = RowsBy::picks;
            operand.stride = static_cast<std::int32_t>(b.tensor->stride[0]);
            places.of[operand.number].stride[0] = b.tensor->stride[0];
            narrow = narrow && fits(b.tensor->stride[0]) && fits(b.tensor->shape[0]);
            places.picks = b.picks->data;  // one index for all that are picked
            places.picks_dtype = b.picks->dtype;
            places.table = b.tensor->shape[0];
        } else {
            maps[count] = *map_rows(*b.tensor, x);
            all[count] = &maps[count];
            mapped[count++] = &operand;
        }
    }
    fold_maps({all, count});
    places.axes = std::max(1, maps[0].axes);
    for (std::size_t i = 0; i < count && places.axes <= 2; ++i)
        narrow = narrow && std::all_of(maps[i].stride, maps[i].stride + maps[i].axes, fits);
    const bool many = row_count(x) >> 31 != 0;
    const bool placed = places.axes > 2 || (places.axes > 1 && many) || !narrow;
    places.wide = placed && many;
    shape.by = placed ? RowsBy::place : places.picks != nullptr ? RowsBy::picks : RowsBy::strides;
    for (int axis = 1; axis < places.axes; ++axis) {
        if (!places.wide) places.size[axis] = Divisor::of(maps[0].size[axis]);
        places.wide_size[axis] = maps[0].size[axis];
    }
    shape.run = places.axes == 2 ? places.size[1] : Divisor::endless();
    for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t* stride = maps[i].stride;
        if (placed) {
            mapped[i]->rows = RowsBy::place;
        } else {
            if (maps[i].axes > 0) mapped[i]->stride = static_cast<std::int32_t>(stride[places.axes - 1]);
            if (places.axes == 2) mapped[i]->run_stride = static_cast<std::int32_t>(stride[0]);
        }
        std::copy(stride, stride + maps[i].axes, places.of[mapped[i]->number].stride);
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
// there have x's last axis, or one element. `kernels`: what the op has; `form`: whether there is a bias, a residual;
// `by`: what bind_rows found.
inline RowProblem row_problem(DType dtype, std::initializer_list<const Tensor*> inputs,
                              std::initializer_list<const Tensor*> outputs, const RowKernels& kernels,
                              RowForm form, RowsBy by) {
    const Tensor& x = **inputs.begin();
    const Tensor& out = **outputs.begin();
    const int element_bytes = bits(dtype) / 8;
    const auto same = [&](const Tensor* t) {
        return !*t || (t->dtype == dtype && t->rank > 0 && t->dim(-1) == x.dim(-1));
    };
    const auto whole = [&](int width) { return rows_allow(width, inputs) && rows_allow(width, outputs); };
    RowProblem problem{.rows = row_count(x), .dim = x.dim(-1), .element_bytes = element_bytes};
    form.bias = form.bias || !kernels.plain;
    form.fp8 = kernels.fp8 && element_bytes == 2 && out.dtype == DType::fp8_e4m3;
    // An op without a kernel of its own for a bias takes the mixed one, and so does its fp32.
    const bool biased =
        !kernels.plain || (kernels.biased && element_bytes == 2 && (!form.fp8 || kernels.biased_fp8));
    // Beside codes is no other output.
    const bool others = std::all_of(outputs.begin() + 1, outputs.end(),
                                    [&](const Tensor* t) { return form.fp8 ? !*t : same(t); });
    const bool stored = form.fp8 || same(&out) || (kernels.wide_outs && weft::kFloat.contains(out.dtype));
    form.uniform = by == RowsBy::strides && problem.rows >> 31 == 0 && stored && others &&
                   (!form.bias || biased) && std::all_of(inputs.begin(), inputs.end(), same) &&
                   whole(16 / element_bytes);
    problem.piece = whole(kOctet) ? kOctet : whole(4) ? 4 : whole(2) ? 2 : 1;
    problem.form = form;
    return problem;
}

// What a plan says of rows that were bound.
inline void plan_shape(RowShape& shape, const RowProblem& problem, const RowPlan& plan) {
    shape.rows = problem.rows;
    shape.dim = problem.dim;
    shape.lanes = plan.lanes;
    shape.lanes_log2 = std::countr_zero(static_cast<unsigned>(plan.lanes));
    shape.cluster = plan.cluster;
}

// Dependent, for row kernels wait before they touch memory.
inline LaunchShape row_launch(const RowPlan& plan, const RowProblem& problem) {
    return {.grid = dim3(static_cast<unsigned>(plan.blocks(problem.rows))),
            .block = dim3(static_cast<unsigned>(plan.threads())),
            .cluster = static_cast<unsigned>(plan.cluster),
            // There are many rows then: room counts, not which SM it is on.
            .balanced = plan.uniform && fills_registers(plan.vectors),
            .dependent = true};
}

// Calls next(std::true_type or std::false_type) for a flag that may be set at all, or never.
template <bool kPossible, class Next>
void with_flag(bool value, Next next) {
    if constexpr (kPossible) {
        if (value) return next(std::true_type{});
    }
    next(std::false_type{});
}

// Calls `use` with an object of the type of a uniform form, of those that the op has; `kWide`: of fp32.
template <RowKernels kKernels, bool kWide, class F>
void with_uniform_form(const RowForm& wanted, F use) {
    with_flag<kKernels.residual>(wanted.residual, [&](auto residual) {
        with_flag<kKernels.fp8 && !kWide>(wanted.fp8, [&](auto fp8) {
            constexpr bool kBiased = kKernels.biased && !kWide && (!fp8() || kKernels.biased_fp8);
            with_flag<kBiased>(wanted.bias, [&](auto bias) {
                use(FormOf < true, !kKernels.plain || bias(), residual(), fp8() > {});
            });
        });
    });
}
// The same of eight vectors a thread, where a residual and fp8 are decided in the kernel.
template <RowKernels kKernels, bool kWide, class F>
void with_full_form(const RowForm& wanted, F use) {
    with_flag<kKernels.biased && !kWide>(wanted.bias, [&](auto bias) {
        use(FormOf < true, !kKernels.plain || bias(), kKernels.residual, kKernels.fp8 && !kWide > {});
    });
}

// Calls `use` as with_row_kernel does, for a kernel of any rows. An op that has nothing beside a row has bare ones only, and
// none for whole octets.
template <bool kBare, RowKernels kKernels, class F>
void with_any_piece(const RowPlan& plan, F use) {
    const auto with_vectors = [&]<int kPiece, int kVectors>() {
        if constexpr (weft::detail::any_allows(kVectors, kBare))
            use(static_cast<float*>(nullptr), std::integral_constant<int, kPiece>{},
                std::integral_constant<int, kVectors>{}, AnyForm<kBare>{});
    };
    const auto with_piece = [&]<int kPiece>() {
        switch (plan.vectors) {
            case 1: return with_vectors.template operator()<kPiece, 1>();
            case 2: return with_vectors.template operator()<kPiece, 2>();
            default: return with_vectors.template operator()<kPiece, 4>();
        }
    };
    switch (plan.piece) {
        case 1: return with_piece.template operator()<1>();
        case 2: return with_piece.template operator()<2>();
        case 4:
            if constexpr (kBare) return with_piece.template operator()<4>();
            [[fallthrough]];
        default:
            if constexpr (kKernels.beside) return with_piece.template operator()<kOctet>();
    }
}
template <RowKernels kKernels, class F>
void with_any_kernel(const RowPlan& plan, F use) {
    if constexpr (kKernels.beside) {
        if (!plan.bare) return with_any_piece<false, kKernels>(plan, use);
    }
    with_any_piece<true, kKernels>(plan, use);
}

// Calls `use` with a null pointer to the element type, the elements of a vector and the number of vectors as constants,
// and an object of the form's type (FormOf). Of kernels that know no dtype, that is fp32.
template <RowKernels kKernels, class F>
void with_row_kernel(DType dtype, const RowProblem& problem, const RowPlan& plan, F use) {
    if (!plan.uniform) {
        return with_flag<true>(!problem.whole(), [&](auto ragged) {
            use(static_cast<float*>(nullptr), std::integral_constant<int, kOctet>{},
                std::integral_constant<int, 0>{}, MixedForm<ragged()>{});
        });
    }
    if constexpr (kKernels.any) {
        if (plan.any) return with_any_kernel<kKernels>(plan, use);
    }
    if constexpr (kKernels.beside) {
        if (plan.beside) {
            return with_wide_type(dtype, [&](auto* type) {
                const auto with_vectors = [&]<int kVectors>() {
                    use(type, std::integral_constant<int, kOctet>{}, std::integral_constant<int, kVectors>{},
                        BesideForm{});
                };
                if (plan.vectors == 1) return with_vectors.template operator()<1>();
                if constexpr (weft::detail::beside_allows(4, static_cast<int>(sizeof(*type)))) {
                    if (plan.vectors == 4) return with_vectors.template operator()<4>();
                }
                with_vectors.template operator()<2>();
            });
        }
    }
    const RowForm wanted = row_form(plan, problem);
    with_wide_type(dtype, [&](auto* type) {
        constexpr std::integral_constant<int, 16 / static_cast<int>(sizeof(*type))> kWidth;
        constexpr bool kWide = kWidth() == 4;
        const auto with_vectors = [&]<int kVectors>(auto form) {
            use(type, kWidth, std::integral_constant<int, kVectors>{}, form);
        };
        if (fills_registers(plan.vectors)) {
            return with_full_form<kKernels, kWide>(
                wanted, [&](auto form) { with_vectors.template operator()<8>(form); });
        }
        const auto with_form = [&](auto form) {
            switch (plan.vectors) {
                case 1: return with_vectors.template operator()<1>(form);
                case 2: return with_vectors.template operator()<2>(form);
                default: return with_vectors.template operator()<4>(form);
            }
        };
        if constexpr (kKernels.modulated && !kWide) {
            if (wanted.modulated)
                return wanted.wide ? with_form(ModulatedForm<true>{}) : with_form(ModulatedForm<false>{});
        }
        if constexpr (kKernels.wide && !kWide) {
            if (wanted.wide) return with_form(WideForm<!kKernels.plain>{});
        }
        with_uniform_form<kKernels, kWide>(wanted, with_form);
    });
}

}  // namespace weft::inline WEFT_TARGET::kit
