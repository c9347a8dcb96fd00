// activation's kernel.
#pragma once

#include "kit/activation.cuh"
#include "kit/elementwise.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kWidth = 8;  // elements of a vector: 16 bytes of a 16-bit input

struct ActivateParams {
    kit::VectorRows x, add, bias, out;  // the bias is one row for all
    const float* scale;                 // null: 1
    Activation activation;
    float alpha;
    bool eager;  // PyTorch's roundings and forms
};

// `values` plus what came of an operand, if it is there, rounded as PyTorch's sum where `eager`.
template <class T>
__device__ __forceinline__ void plus(float (&values)[kWidth], const kit::VectorRows& in,
                                     const kit::Fetched<T, kWidth>& held, bool eager, DType dtype) {
    if (in.data == nullptr) return;
    float term[kWidth];
    held.widen(in, term);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
        values[i] += term[i];
        if (eager) values[i] = kit::round_as(dtype, values[i]);
    }
}

// What     out = act(x + add + bias) / scale
// Mapping  a thread owns one vector of 8 elements of a row (kit/elementwise.cuh)
// Traffic  x, add and out once: bound by memory; the bias stays in L1. The activation is chosen once a vector
// Needs    out may be x's or add's memory: a thread reads its vectors before it writes there. T, where it is not
//          Any, is the dtype of all inputs, whose vectors are whole. kLong where has_long_code says so
template <class T, class Out, bool kLong>
__global__ void __launch_bounds__(256) activation(ActivateParams p, kit::RowTiles tiles) {
    kit::for_each_vector<kWidth, Out>(tiles, [&](const auto& at) {
        constexpr bool kScaled = std::is_same_v<Out, kit::e4m3> || std::is_same_v<Out, kit::Any>;
        // The scale is asked for first: it is divided by while the vectors are under way.
        [[maybe_unused]] const float scale = kScaled && p.scale != nullptr ? *p.scale : 1.0f;
        kit::Fetched<T, kWidth> x, add, bias;
        x.load(p.x, at);
        if (p.add.data != nullptr) add.load(p.add, at);
        if (p.bias.data != nullptr) bias.load(p.bias, at);
        float y[kWidth];
        x.widen(p.x, y);
        plus(y, p.add, add, p.eager, p.x.dtype);
        plus(y, p.bias, bias, p.eager, p.x.dtype);
        kit::with_activation<kLong>(p.activation, p.alpha, p.eager, [&](auto act) {
#pragma unroll
            for (float& value : y) value = act(value);
        });
        if constexpr (kScaled) {
            const float inverse = 1.0f / scale;
#pragma unroll
            for (float& value : y) value *= inverse;
        }
        kit::store_row<Out>(p.out, at, y);
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
