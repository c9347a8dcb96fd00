// What the rungs of this topic share: a dot product is a sum with a factor.
#pragma once

#include "ladder/reduce/rows.h"

namespace weft::inline WEFT_TARGET {

// One block a row.
template <class T>
void launch_dot(const char* name, void (*kernel)(const T*, const T*, float*, std::int64_t), const Reduce& op,
                Context& context) {
    kit::launch(name, kernel, {.grid = dim3(static_cast<unsigned>(op.out.numel())), .block = kBlock},
                context.stream(), op.x.as<const T>(), op.factor.as<const T>(), op.out.as<float>(),
                op.x.dim(-1));
}

}  // namespace weft::inline WEFT_TARGET
