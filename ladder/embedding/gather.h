// What the rungs of this topic share: which calls they take, and their launch.
#pragma once

#include "ladder/rung.h"
#include "ops/embedding/embedding.h"

namespace weft::inline WEFT_TARGET {

// A number that names no row gives zeros: nothing outside of the table is read.
__device__ __forceinline__ bool has_row(int id, std::int64_t vocab) { return id >= 0 && id < vocab; }

inline const char* decline_embedding(const Embedding& op, DType dtype, int width) {
    if (!is_dense(op.ids, DType::int32)) return "takes dense int32 numbers";
    for (const Tensor* t : {&op.table, &op.out}) {
        if (!is_dense(*t, dtype)) return "takes dense tensors of its one dtype";
        if (!starts_aligned(*t, 16)) return "takes tensors that start at a multiple of 16 bytes";
    }
    if (op.table.dim(-1) % width != 0) return "takes rows of whole vectors";
    return op.scale == 1.0f ? nullptr : "does not scale";
}

// A block a token; its threads go along the row.
template <class T>
void launch_embedding(const char* name, void (*kernel)(const int*, const T*, T*, std::int64_t, std::int64_t),
                      const Embedding& op, Context& context) {
    kit::launch(name, kernel, {.grid = dim3(static_cast<unsigned>(op.ids.numel())), .block = 128},
                context.stream(), op.ids.as<const int>(), op.table.as<const T>(), op.out.as<T>(),
                op.table.dim(0), op.table.dim(-1));
}

}  // namespace weft::inline WEFT_TARGET
