// What the rungs of this topic share: which calls they take, and their launch.
#pragma once

#include "ladder/row.cuh"
#include "ops/softmax/softmax.h"

namespace weft::inline WEFT_TARGET {

inline const char* decline_softmax(const Softmax& op, DType dtype) {
    for (const Tensor* t : {&op.x, &op.out}) {
        if (!is_dense(*t, dtype)) return "takes dense tensors of its one dtype";
        if (!starts_aligned(*t, 16)) return "takes tensors that start at a multiple of 16 bytes";
    }
    return op.scale == 1.0f ? nullptr : "does not scale";
}

// One block a row.
template <class T>
void launch_softmax(const char* name, void (*kernel)(const T*, T*, std::int64_t), const Softmax& op,
                    Context& context) {
    const std::int64_t dim = op.x.dim(-1);
    kit::launch(name, kernel, {.grid = dim3(static_cast<unsigned>(op.x.numel() / dim)), .block = kBlock},
                context.stream(), op.x.as<const T>(), op.out.as<T>(), dim);
}

// What is subtracted from every logit: the largest, or nothing where all are -infinity, whose difference is NaN.
__device__ __forceinline__ float shift_of(float max) { return max == -INFINITY ? 0.0f : max; }
// A row without any weight gives zeros.
__device__ __forceinline__ float inverse_of(float sum) { return sum == 0.0f ? 0.0f : 1.0f / sum; }

}  // namespace weft::inline WEFT_TARGET
