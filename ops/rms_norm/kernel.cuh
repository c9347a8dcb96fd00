// rms_norm's kernel: its statistics over the norms' skeleton.
#pragma once

#include "kit/row_norm.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// What    y = r / sqrt(mean(r²) + eps) · (weight + offset) + bias, r = round(x + residual)
// Mapping, traffic and needs: kit::normalise_rows
template <class T, int N, int V, class Form>
__global__ void __launch_bounds__(kit::row_bound(V, Form::kForm), kit::row_blocks(V, Form::kForm))
    rms_norm_kernel(const __grid_constant__ kit::NormOf<Form> p) {
    kit::normalise_rows<T, N, V, Form>(p, [&](auto& row, auto& group, auto summed) -> kit::Moments {
        const float part = row.sum([](float x) { return x * x; });
        summed();
        const float squares = group.sum(part);
        return {0.0f, __frsqrt_rn(squares * p.inverse_dim + p.eps)};
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
