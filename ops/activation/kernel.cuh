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

// `values` plus a vector of an operand, rounded as PyTorch's sum where `eager`.
template <class T, class At>
__device__ __forceinline__ void plus(float (&values)[kWidth], const kit::VectorRows& in, const At& at,
                                     bool eager, DType dtype) {
    float term[kWidth];
    kit::load_row<T>(in, at, term);
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
    kit::for_each_vector<kWidth, Out>(tiles, p.out.dtype, [&](auto* type, const auto& at) {
        using O = std::remove_pointer_t<decltype(type)>;
        constexpr bool kScaled = std::is_same_v<O, kit::e4m3> || std::is_same_v<O, kit::e5m2>;
        // The scale is asked for first: it is divided by while the vectors are under way.
        const float scale = kScaled && p.scale != nullptr ? *p.scale : 1.0f;
        float y[kWidth];
        kit::load_row<T>(p.x, at, y);
        if (p.add.data != nullptr) plus<T>(y, p.add, at, p.eager, p.x.dtype);
        if (p.bias.data != nullptr) plus<T>(y, p.bias, at, p.eager, p.x.dtype);
        kit::with_activation<kLong>(p.activation, p.alpha, p.eager, [&](auto act) {
#pragma unroll
            for (float& value : y) value = act(value);
        });
        if constexpr (kScaled) {
            const float inverse = 1.0f / scale;
#pragma unroll
            for (float& value : y) value *= inverse;
        }
        kit::store<O>(p.out, at, y);
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
