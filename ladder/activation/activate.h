// What the rungs of this topic share: the functions, which calls are taken, and the launch.
#pragma once

#include "ladder/rung.h"
#include "ops/activation/activation.h"

namespace weft::inline WEFT_TARGET {

// Each in the form that neither end of fp32 breaks. e^-x may be infinite, and 1 / (1 + infinity) is the 0 that is right;
// what clamps x first, to keep e^-x finite, is wrong beyond the clamp, and what forms (e^2u - 1) / (e^2u + 1) is NaN
// there. The difference 1 - e^x would lose every digit of a small x: expm1f keeps them.
__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }
__device__ __forceinline__ float gelu_tanh(float x) {
    constexpr float kTwice = 1.5957691216057308f;  // 2·√(2/π): 0.5·(1 + tanh u) is sigmoid(2u)
    return x / (1.0f + expf(-kTwice * (x + 0.044715f * x * x * x)));
}
__device__ __forceinline__ float hardswish(float x) {
    return x <= -3.0f ? 0.0f : x >= 3.0f ? x : x * (x + 3.0f) / 6.0f;
}

// The branch is the same for all threads, and costs nothing beside the memory that they wait for.
__device__ __forceinline__ float activate(Activation activation, float alpha, float x) {
    switch (activation) {
        case Activation::relu: return x < 0.0f ? 0.0f : x;  // NaN stays, where fmaxf(x, 0) would drop it
        case Activation::sigmoid: return sigmoid(x);
        case Activation::silu: return silu(x);
        case Activation::gelu_tanh: return gelu_tanh(x);
        case Activation::elu: return x < 0.0f ? alpha * expm1f(x) : x;
        case Activation::hardswish: return hardswish(x);
        default: return fabsf(x) <= alpha ? 0.0f : x;  // hardshrink
    }
}
__device__ __forceinline__ __half activate(Activation activation, float alpha, __half x) {
    return __float2half_rn(activate(activation, alpha, __half2float(x)));
}
__device__ __forceinline__ __half2 activate(Activation activation, float alpha, __half2 x) {
    return __halves2half2(activate(activation, alpha, __low2half(x)),
                          activate(activation, alpha, __high2half(x)));
}

inline const char* decline_activation(const Activate& op, DType dtype) {
    for (const Tensor* t : {&op.x, &op.out}) {
        if (!is_dense(*t, dtype)) return "takes dense tensors of its one dtype";
        if (!starts_aligned(*t, 16)) return "takes tensors that start at a multiple of 16 bytes";
    }
    if (op.add || op.bias || op.front) return "applies a function, and nothing else";
    if (op.rounding != Rounding::fused) return "rounds once";
    switch (op.activation) {
        case Activation::relu:
        case Activation::sigmoid:
        case Activation::silu:
        case Activation::gelu_tanh:
        case Activation::elu:
        case Activation::hardswish:
        case Activation::hardshrink: return nullptr;
        default: return "has the functions of its topic, of which this is none";
    }
}

// As many threads as there are vectors of `width` elements, the last of which may be cut off.
template <class T>
void launch_activation(const char* name, void (*kernel)(const T*, T*, std::int64_t, Activation, float),
                       int width, const Activate& op, Context& context) {
    const std::int64_t n = op.out.numel();
    kit::launch(name, kernel, {.grid = blocks_for(divide_up(n, width), 256), .block = 256}, context.stream(),
                op.x.as<const T>(), op.out.as<T>(), n, op.activation, op.alpha);
}

}  // namespace weft::inline WEFT_TARGET
