// Activations in fp32.
//
// silu and gelu_tanh are x·σ(t) = x / (1 + 2^(−t·log₂e)), with t = x and t = 2√(2/π)·(x + 0.044715·x³):
// tanh's own form, 0.5·x·(1 + tanh(t/2)), loses every digit of 1 + tanh for a negative x, this one loses
// none. On the special-function unit's exponential and reciprocal it costs a dozen instructions, so that a
// kernel that reads 16 bits and writes 8 stays within the card's bandwidth. Relative error: (9 + 5·|t|·(1 −
// σ(t)))·2^-24, and where 2^(−t·log₂e) exceeds 2^126 the result is 0, at most |x|·2^-126 off. An infinite x
// gives what PyTorch's formula gives: NaN below, itself above.
#pragma once

#include "kit/ptx/approximate.cuh"
#include "kit/target.h"
#include "weft/activation.h"

namespace weft::inline WEFT_TARGET::kit {

__device__ __forceinline__ float sigmoid(float x) {
    constexpr float kLog2e = 1.4426950408889634f;
    return reciprocal_approximate(1.0f + exp2_approximate(-kLog2e * x));
}

__device__ __forceinline__ float silu(float x) { return x * sigmoid(x); }

__device__ __forceinline__ float gelu_tanh(float x) {
    constexpr float kLinear = -2.302208198144325f;  // −2·√(2/π)·log₂e
    constexpr float kCubic = -0.1029432395800232f;  // that times 0.044715
    return x * reciprocal_approximate(1.0f + exp2_approximate(x * (kLinear + kCubic * (x * x))));
}

// tanh's own form on the special-function unit's tanh, half of what gelu_tanh asks of that unit: at most
// 2^-12·|x| off, which loses the digits of a negative x. For 16-bit results of many sums.
__device__ __forceinline__ float gelu_tanh_approximate(float x) {
    constexpr float kLinear = 0.7978845608028654f;   // √(2/π)
    constexpr float kCubic = 0.035677408136300125f;  // that times 0.044715
    const float half = 0.5f * x;
    return fmaf(half, tanh_approximate(x * fmaf(kCubic, x * x, kLinear)), half);
}

// x·Φ(x) through erfc, which keeps its digits for a negative x.
__device__ __forceinline__ float gelu_erf(float x) { return 0.5f * x * erfcf(-0.70710678118654752f * x); }

// x·σ(1.702·x), with its own constant: −1.702·log₂e.
__device__ __forceinline__ float gelu_quick(float x) {
    return x * reciprocal_approximate(1.0f + exp2_approximate(-2.4554669595930157f * x));
}

// The piecewise ones compare so that NaN stays NaN. alpha: the slope below 0, the limit below, the threshold.
__device__ __forceinline__ float relu(float x) { return x < 0.0f ? 0.0f : x; }
__device__ __forceinline__ float leaky_relu(float x, float alpha) { return x < 0.0f ? alpha * x : x; }
__device__ __forceinline__ float elu(float x, float alpha) { return x < 0.0f ? alpha * expm1f(x) : x; }
__device__ __forceinline__ float hardshrink(float x, float alpha) { return fabsf(x) <= alpha ? 0.0f : x; }
__device__ __forceinline__ float hardswish(float x) {
    return x <= -3.0f ? 0.0f : x >= 3.0f ? x : x * (x + 3.0f) * 0.16666666666666666f;
}

// PyTorch's own forms, which its eager operators compute: nearer to these bits, further from the function where 1 +
// tanh or 1 + erf cancels.
namespace eager {
__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }
__device__ __forceinline__ float gelu_tanh(float x) {
    const float cube = x * x * x, inner = 0.7978845608028654f * (x + 0.044715f * cube);
    return 0.5f * x * (1.0f + tanhf(inner));
}
__device__ __forceinline__ float gelu_erf(float x) {
    return x * 0.5f * (1.0f + erff(x * 0.7071067811865476f));
}
__device__ __forceinline__ float hardswish(float x) {
    return x * fminf(fmaxf(x + 3.0f, 0.0f), 6.0f) * 0.16666667163372040f;
}
}  // namespace eager

// Calls use(f), f a function of an element. The choice is the same for the whole grid. What has long code is left out
// where kLong says that it is not asked for.
template <bool kLong, class Use>
__device__ __forceinline__ void with_activation(Activation activation, float alpha, bool as_eager, Use use) {
    if constexpr (kLong) {
        switch (activation) {
            case Activation::gelu_erf:
                return as_eager ? use([](float x) { return eager::gelu_erf(x); })
                                : use([](float x) { return gelu_erf(x); });
            case Activation::tanh: return use([](float x) { return tanhf(x); });
            case Activation::elu: return use([=](float x) { return elu(x, alpha); });
            default: break;
        }
        if (as_eager) {
            switch (activation) {
                case Activation::silu: return use([](float x) { return eager::silu(x); });
                case Activation::sigmoid: return use([](float x) { return eager::sigmoid(x); });
                case Activation::gelu_tanh: return use([](float x) { return eager::gelu_tanh(x); });
                case Activation::hardswish: return use([](float x) { return eager::hardswish(x); });
                default: break;
            }
        }
    }
    switch (activation) {
        case Activation::silu: return use([](float x) { return silu(x); });
        case Activation::gelu_tanh: return use([](float x) { return gelu_tanh(x); });
        case Activation::gelu_quick: return use([](float x) { return gelu_quick(x); });
        case Activation::sigmoid: return use([](float x) { return sigmoid(x); });
        case Activation::relu: return use([](float x) { return relu(x); });
        case Activation::relu2: return use([](float x) { return relu(x) * relu(x); });
        case Activation::leaky_relu: return use([=](float x) { return leaky_relu(x, alpha); });
        case Activation::hardswish: return use([](float x) { return hardswish(x); });
        case Activation::hardshrink: return use([=](float x) { return hardshrink(x, alpha); });
        default: return use([](float x) { return x; });
    }
}
// Host: whether with_activation needs kLong for it.
constexpr bool has_long_code(Activation activation, bool as_eager) {
    return as_eager || activation == Activation::gelu_erf || activation == Activation::tanh ||
           activation == Activation::elu;
}

}  // namespace weft::inline WEFT_TARGET::kit
