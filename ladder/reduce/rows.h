// What the rungs of this topic share: which calls they take, and their launch. A whole tensor is one row.
#pragma once

#include "ladder/row.cuh"
#include "ops/reduce/reduce.h"

namespace weft::inline WEFT_TARGET {

inline const char* decline_sum(const Reduce& op, DType dtype, DType out = DType::fp32, bool factor = false) {
    if (!is_dense(op.x, dtype) || op.out.dtype != out) return "takes dense tensors of its own dtypes";
    if (!starts_aligned(op.x, 16)) return "takes tensors that start at a multiple of 16 bytes";
    if (op.kind != Reduce::Kind::sum) return "finds sums";
    if (static_cast<bool>(op.factor) != factor) return factor ? "multiplies by a factor" : "takes no factor";
    if (factor && (!is_dense(op.factor, dtype) || !starts_aligned(op.factor, 16)))
        return "takes a factor that is as x is";
    return nullptr;
}

// One block a row.
template <class T, class Out>
void launch_sum(const char* name, void (*kernel)(const T*, Out*, std::int64_t), const Reduce& op,
                Context& context) {
    kit::launch(name, kernel, {.grid = dim3(static_cast<unsigned>(op.out.numel())), .block = kBlock},
                context.stream(), op.x.as<const T>(), op.out.as<Out>(), op.x.dim(-1));
}

}  // namespace weft::inline WEFT_TARGET
