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

namespace weft::inline WEFT_TARGET::kit {

enum class Activation { silu, gelu_tanh, gelu_erf };

__device__ __forceinline__ float silu(float x) {
    constexpr float kLog2e = 1.4426950408889634f;
    return x * reciprocal_approximate(1.0f + exp2_approximate(-kLog2e * x));
}

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

__device__ __forceinline__ float activate(Activation activation, float x) {
    switch (activation) {
        case Activation::silu: return silu(x);
        case Activation::gelu_tanh: return gelu_tanh(x);
        default: return gelu_erf(x);
    }
}

}  // namespace weft::inline WEFT_TARGET::kit
