// layer_norm's kernel: its statistics over the norms' skeleton.
#pragma once

#include "kit/row_norm.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// What    y = (r − mean) / sqrt(mean((r − mean)²) + eps) · (weight + offset) + bias, r = round(x + residual)
// Mapping, traffic and needs: kit::normalise_rows
template <class T, int N, int V, class Form>
__global__ void __launch_bounds__(kit::row_bound(V, Form::kForm), kit::row_blocks(V, Form::kForm))
    layer_norm_kernel(const __grid_constant__ kit::NormOf<Form> p) {
    kit::normalise_rows<T, N, V, Form>(p, [&](auto& row, auto& group, auto summed) -> kit::Moments {
        const float mean = group.sum(row.sum([](float x) { return x; })) * p.inverse_dim;
        const float part = row.sum([mean](float x) { return (x - mean) * (x - mean); });
        summed();
        const float squares = group.sum(part);
        return {mean, __frsqrt_rn(squares * p.inverse_dim + p.eps)};
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
