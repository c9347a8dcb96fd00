// euler_step's kernel.
#pragma once

#include "kit/elementwise.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kWidth = 8;  // elements of a vector: 16 bytes of a 16-bit input

struct StepParams {
    kit::VectorRows sample, velocity, conditional, out;  // sample and conditional may be absent
    float step, guidance;
    bool eager;
};

// a + factor · b, the product rounded before the sum. Where eager, it and the sum are rounded to `dtype` too.
__device__ __forceinline__ float moved(float a, float factor, float b, bool eager, DType product, DType sum) {
    const float by = __fmul_rn(factor, b);
    return eager ? kit::round_as(sum, __fadd_rn(a, kit::round_as(product, by))) : __fadd_rn(a, by);
}

// What     out = sample + step·v, v = velocity + guidance·(conditional − velocity)
// Mapping  a thread owns one vector of 8 elements of a row (kit/elementwise.cuh)
// Traffic  each operand once: bound by memory
// Needs    out may be an input's memory: a thread reads its vectors before it writes there. T, where it is not Any,
//          is the dtype of all operands, whose vectors are whole
template <class T>
__global__ void __launch_bounds__(256) euler_step(StepParams p, kit::RowTiles tiles) {
    kit::for_each_vector<kWidth, T>(tiles, [&](const auto& at) {
        float v[kWidth], conditional[kWidth], sample[kWidth];
        kit::load_row<T>(p.velocity, at, v);
        if (p.conditional.data != nullptr) kit::load_row<T>(p.conditional, at, conditional);
        if (p.sample.data != nullptr) kit::load_row<T>(p.sample, at, sample);
        const DType dtype = p.velocity.dtype;
        if (p.conditional.data != nullptr) {
#pragma unroll
            for (int i = 0; i < kWidth; ++i) {
                const float change = __fadd_rn(conditional[i], -v[i]);
                v[i] = moved(v[i], p.guidance, p.eager ? kit::round_as(dtype, change) : change, p.eager,
                             dtype, dtype);
            }
        }
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
            v[i] = p.sample.data != nullptr ? moved(sample[i], p.step, v[i], p.eager, dtype, DType::fp32)
                   : p.eager                ? kit::round_as(dtype, __fmul_rn(p.step, v[i]))
                                            : __fmul_rn(p.step, v[i]);
        }
        kit::store_row<T>(p.out, at, v);
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
