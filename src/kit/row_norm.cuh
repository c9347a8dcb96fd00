// The skeleton of the norms of rows over kit/row.cuh. A norm is its statistics: all else is here.
#pragma once

#include "kit/ptx/pdl.cuh"
#include "kit/row_store.cuh"

namespace weft::inline WEFT_TARGET::kit {

struct RowNorm {
    RowShape shape;
    RowInput in;
    RowOperand weight, bias;
    RowOutput to;
    float eps = 0, weight_offset = 0, inverse_dim = 0;
};

// What a norm subtracts from a row's elements, and what it multiplies the difference by.
struct Moments {
    float shift, scale;
};

// What    r = round(x + residual); y = (r − shift) · scale · (weight + weight_offset) + bias, where
//         `statistics(row, group, summed)` gives shift and scale; it calls summed() once, between the thread's own part
//         of the last sum and the wait for the others': what found no register before is asked for there
// Mapping a row is shared by `lanes` threads of a block, times the blocks of a cluster; each thread holds V
//         vectors of N elements, neighbours side by side, in registers (or its part of the row in shared
//         memory, or it reads the row again)
// Traffic every operand once (bound by memory); weight and bias come from the caches after the first rows
// Needs   blockDim.x = lanes · rows of a block, a multiple of 32; V > 0: lanes · cluster · V · N >= dim;
//         N = 1, or dim a multiple of N and every row aligned for vectors of N
template <class T, int N, int V, class Form, class Statistics>
__device__ __forceinline__ void normalise_rows(const RowNorm& p, Statistics statistics) {
    constexpr RowForm kForm = Form::kForm;
    constexpr bool kFp8 = kForm.fp8, kBias = kForm.bias;
    constexpr bool kFull = fills_registers(V);
    constexpr int kSlots = V > 0 ? V : kStreamedRow;
    constexpr int kHeld = kFull && kBias ? V / 2 : kSlots;  // two share what one has else
    dependency_wait();
    dependents_launch();
    Group<kForm.scope> group{p.shape.lanes, p.shape.cluster};
    Row<T, N, V, Form> row(group, p.shape);
    RowSlice<T, N, kSlots, kForm.uniform, kHeld> weight, bias;
    const auto load_weight = [&] { weight.load_or(1.0f, row.part, p.weight, 0); };
    const auto load_bias = [&] { bias.load_or(-0.0f, row.part, p.bias, 0); };
    float scale = 1.0f;
    row.load(p.in, [&] {
        if constexpr (!kFull) load_weight();
        if constexpr (kFp8) scale = static_scale(p.to);
    });
    group.begin();
    const Moments m = statistics(row, group, [&] {
        if constexpr (kFull) load_weight();
        if constexpr (kFull && kBias) load_bias();
    });
    if constexpr (!kFull && kBias) load_bias();  // late: registers are rows in flight
    store_row(row, group, p.to, scale, [&](int v, std::int64_t index, float (&x)[N]) {
        float w[N];
        weight.get(v, index, w);
#pragma unroll
        for (int i = 0; i < N; ++i) x[i] = (x[i] - m.shift) * m.scale * (w[i] + p.weight_offset);
        if constexpr (kBias) {
            float b[N];
            bias.get(v, index, b);
#pragma unroll
            for (int i = 0; i < N; ++i) x[i] += b[i];
        }
        if constexpr (kHeld < kSlots) {
            bias.pass(row.part, v, kFp8);
            weight.pass(row.part, v, kFp8);
        }
    });
}

}  // namespace weft::inline WEFT_TARGET::kit
