// What the rungs of this topic share: C = A·B, both row major, as weft's gemm takes it. There the second operand is named
// [n, k], and a row-major B of [k, n] is its transposed view, with strides 1 and n.
#pragma once

#include "ladder/rung.h"
#include "ops/gemm/gemm.h"

namespace weft::inline WEFT_TARGET {

// kTransposed: B lies as it is named, [n, k], row major.
template <bool kTransposed = false>
const char* decline_product(const Gemm& op, DType dtype, DType out) {
    if (!is_dense(op.a, dtype) || !is_dense(op.out, out) || op.b.dtype != dtype)
        return "takes dense matrices of its own dtypes";
    if (kTransposed && !op.b.is_dense()) return "takes a row-major [n, k]";
    if (!kTransposed && (op.b.stride[0] != 1 || op.b.stride[1] != op.b.dim(0)))
        return "takes a row-major [k, n] as b's view";
    const bool plain = has_only(op, {"a", "b", "out"}) && op.activation == Gemm::Activation::none;
    return plain ? nullptr : "multiplies, and nothing else";
}

struct Sizes {
    std::int64_t m, n, k;
    std::int64_t across;  // tiles in a row of tiles
    bool whole;           // all rows are whole vectors of 16 bytes
};

// For tiles of `columns`.
template <class T>
Sizes product_sizes(const Gemm& op, int columns) {
    const std::int64_t k = op.a.dim(-1), n = op.b.dim(0), m = op.out.numel() / n;
    constexpr auto kVector = static_cast<std::int64_t>(16 / sizeof(T));
    const bool starts = starts_aligned(op.a, 16) && starts_aligned(op.b, 16) && starts_aligned(op.out, 16);
    return {m, n, k, divide_up(n, columns), starts && n % kVector == 0 && k % kVector == 0};
}

// A block for each tile of `rows` by `columns` of the output, numbered along one axis of the grid; `shared` bytes of
// the dynamic array.
template <class T, class Out>
void launch_product(const char* name, void (*kernel)(const T*, const T*, Out*, Sizes), int rows, int columns,
                    dim3 block, const Gemm& op, Context& context, std::size_t shared = 0) {
    const Sizes sizes = product_sizes<T>(op, columns);
    kit::launch(name, kernel,
                {.grid = dim3(static_cast<unsigned>(sizes.across * divide_up(sizes.m, rows))),
                 .block = block,
                 .dynamic_shared = shared},
                context.stream(), op.a.as<const T>(), op.b.as<const T>(), op.out.as<Out>(), sizes);
}

}  // namespace weft::inline WEFT_TARGET
