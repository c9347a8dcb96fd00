// What the rungs of this topic share: which calls they take, and their launch.
#pragma once

#include "ladder/row.cuh"
#include "ops/layer_norm/layer_norm.h"

namespace weft::inline WEFT_TARGET {

inline const char* decline_layer_norm(const LayerNorm& op, DType dtype) {
    for (const Tensor* t : {&op.x, &op.weight, &op.bias, &op.out}) {
        if (!*t) return "multiplies by a weight and adds a bias";
        if (!is_dense(*t, dtype)) return "takes dense tensors of its one dtype";
        if (!starts_aligned(*t, 16)) return "takes tensors that start at a multiple of 16 bytes";
    }
    if (!has_only(op, {"x", "weight", "bias", "out"})) return "normalises, and nothing else";
    if (op.weight_offset != 0.0f) return "multiplies by the weight as it is";
    return op.rounding == Rounding::fused ? nullptr : "rounds once";
}

template <class T>
struct LayerNormRow {
    const T *x, *weight, *bias;
    T* out;
    std::int64_t dim;
    float eps;
};

// One block a row.
template <class T>
void launch_layer_norm(const char* name, void (*kernel)(LayerNormRow<T>), const LayerNorm& op,
                       Context& context) {
    const std::int64_t dim = op.x.dim(-1);
    const LayerNormRow<T> row{
        op.x.as<const T>(), op.weight.as<const T>(), op.bias.as<const T>(), op.out.as<T>(), dim, op.eps};
    kit::launch(name, kernel, {.grid = dim3(static_cast<unsigned>(op.x.numel() / dim)), .block = kBlock},
                context.stream(), row);
}

}  // namespace weft::inline WEFT_TARGET
