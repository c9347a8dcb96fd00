// layer_norm's kernel: a short body over the row skeleton.
#pragma once

#include "kit/ptx/pdl.cuh"
#include "kit/row.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

struct LayerNormParams {
    kit::RowShape shape;
    kit::RowInput in;
    kit::RowOperand weight, bias;
    kit::RowOutput to;
    float eps = 0, weight_offset = 0;
};

// What    r = round(x + residual); y = (r - mean) / sqrt(mean((r - mean)²) + eps) · (weight + offset) + bias
// Mapping a row is shared by `lanes` threads of a block, times the blocks of a cluster; each thread holds V
//         vectors of N elements, neighbours side by side, in registers (or its part of the row in shared
//         memory, or it reads the row again)
// Traffic every operand once (bound by memory); weight and bias come from the caches after the first rows
// Needs   blockDim.x = lanes · rows of a block, a multiple of 32; V > 0: lanes · cluster · V · N >= dim;
//         N = 1, or dim a multiple of N and every row aligned for vectors of N
template <class T, int N, int V>
__global__ void __launch_bounds__(kit::row_bound(V))
    layer_norm_kernel(const __grid_constant__ LayerNormParams p) {
    kit::dependency_wait();
    kit::dependents_launch();
    kit::Group group{p.shape.lanes, p.shape.cluster};
    kit::Row<T, N, V> row(group, p.shape);
    row.load(p.in);
    kit::RowSlice<T, N, kit::held_operand(V, 0)> weight;  // on its way while the row is summed
    kit::RowSlice<T, N, kit::held_operand(V, 1)> bias;
    weight.load(row.part, p.weight, 0, 1.0f);
    bias.load(row.part, p.bias, 0, -0.0f);
    group.begin();

    const auto dim = static_cast<float>(p.shape.dim);
    const float mean = group.sum(row.sum([](float x) { return x; })) / dim;
    const float squares = group.sum(row.sum([mean](float x) { return (x - mean) * (x - mean); }));
    const float scale = 1.0f / sqrtf(squares / dim + p.eps);

    kit::store_row(row, group, p.to, [&](int v, std::int64_t index, float (&x)[N]) {
        float w[N], b[N];
        weight.get(v, index, w);
        bias.get(v, index, b);
#pragma unroll
        for (int i = 0; i < N; ++i) x[i] = (x[i] - mean) * scale * (w[i] + p.weight_offset) + b[i];
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
