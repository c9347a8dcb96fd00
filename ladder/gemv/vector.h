// What the rungs of this topic share: y = A·x as the product of one row, x, with b = A; which calls they take, and the
// launch.
#pragma once

#include "ladder/block_sum.cuh"
#include "ops/gemm/gemm.h"

namespace weft::inline WEFT_TARGET {

// `width`: elements that a load takes, which rows must be whole multiples of.
inline const char* decline_gemv(const Gemm& op, DType dtype, int width) {
    for (const Tensor* t : {&op.a, &op.b, &op.out}) {
        if (!is_dense(*t, dtype)) return "takes dense tensors of its one dtype";
        if (!starts_aligned(*t, 16)) return "takes tensors that start at a multiple of 16 bytes";
    }
    if (!has_only(op, {"a", "b", "out"}) || op.activation != Gemm::Activation::none)
        return "multiplies, and nothing else";
    if (op.out.numel() != op.b.dim(0)) return "takes one vector";
    return op.b.dim(1) % width == 0 ? nullptr : "takes rows of whole vectors";
}

// A group of `lanes` lanes a row of the matrix, or `each` rows, in blocks of 128 threads.
template <class T>
void launch_gemv(const char* name, void (*kernel)(const T*, const T*, T*, std::int64_t, std::int64_t),
                 int lanes, const Gemm& op, Context& context, int each = 1) {
    const std::int64_t rows = op.b.dim(0);
    kit::launch(name, kernel, {.grid = blocks_for(rows, 128 / lanes * each), .block = 128}, context.stream(),
                op.a.as<const T>(), op.b.as<const T>(), op.out.as<T>(), rows, op.b.dim(1));
}

}  // namespace weft::inline WEFT_TARGET
