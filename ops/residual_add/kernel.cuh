// residual_add's kernel.
#pragma once

#include "kit/elementwise.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kWidth = 8;  // elements of a vector: 16 bytes of a 16-bit input

struct SumParams {
    kit::VectorRows x, residual, bias, out;  // the bias is one row for all
};

// A vector, widened. T is Any where the operand's dtype is not known.
template <class T, class At>
__device__ __forceinline__ void load_row(const kit::VectorRows& in, const At& at, float (&values)[kWidth]) {
    if constexpr (std::is_same_v<T, kit::Any>) {
        kit::with_type(in.dtype, [&](auto* type) {
            kit::to_floats(kit::load<std::remove_pointer_t<decltype(type)>, kWidth>(in, at), values);
        });
    } else {
        kit::to_floats(kit::load<T, kWidth>(in, at), values);
    }
}

// What     out = (x + bias) + residual, one fp32 rounding a sum, one to out's dtype
// Mapping  a thread owns one vector of 8 elements of a row (kit/elementwise.cuh)
// Traffic  x, residual and out once: bound by memory; the bias stays in L1
// Needs    out may be x's or residual's memory: a thread reads its vectors before it writes there. T, where
//          it is not Any, is the dtype of all operands, whose vectors are whole
template <class T>
__global__ void __launch_bounds__(256) residual_add(SumParams p, kit::RowTiles tiles) {
    kit::for_each_vector<kWidth, T>(tiles, p.out.dtype, [&](auto* type, const auto& at) {
        float sum[kWidth], residual[kWidth], bias[kWidth];
        load_row<T>(p.x, at, sum);
        load_row<T>(p.residual, at, residual);
        if (p.bias.data != nullptr) load_row<T>(p.bias, at, bias);
        if (p.bias.data != nullptr) {
#pragma unroll
            for (int i = 0; i < kWidth; ++i) sum[i] += bias[i];
        }
#pragma unroll
        for (int i = 0; i < kWidth; ++i) sum[i] += residual[i];
        kit::store<std::remove_pointer_t<decltype(type)>>(p.out, at, sum);
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
