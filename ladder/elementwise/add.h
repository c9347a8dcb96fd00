// What the rungs of this topic share: which calls they take, and their launch.
#pragma once

#include "ladder/rung.h"
#include "ops/residual_add/residual_add.h"

namespace weft::inline WEFT_TARGET {

inline const char* decline_add(const ResidualAdd& op, DType dtype) {
    for (const Tensor* t : {&op.x, &op.residual, &op.out}) {
        if (!is_dense(*t, dtype)) return "takes dense tensors of its one dtype";
        if (!starts_aligned(*t, 16)) return "takes tensors that start at a multiple of 16 bytes";
    }
    return op.bias || op.gate ? "adds two tensors, and nothing else" : nullptr;
}

// As many threads as there are vectors of `width` elements, the last of which may be cut off.
template <class T>
void launch_add(const char* name, void (*kernel)(const T*, const T*, T*, std::int64_t), int width,
                const ResidualAdd& op, Context& context) {
    const std::int64_t n = op.out.numel();
    kit::launch(name, kernel, {.grid = blocks_for(divide_up(n, width), 256), .block = 256}, context.stream(),
                op.x.as<const T>(), op.residual.as<const T>(), op.out.as<T>(), n);
}

}  // namespace weft::inline WEFT_TARGET
