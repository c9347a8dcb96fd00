// What both gemm kernels do with four neighbouring sums: scale, bias, activation, residual, store.
#pragma once

#include "kit/activation.cuh"
#include "kit/convert.cuh"
#include "kit/vector.cuh"
#include "ops/gemm/gemm.h"

namespace weft::inline WEFT_TARGET {
namespace {

// Pointers are null where the operand is absent. `..._vectors`: every row begins where four elements may be
// accessed at once.
struct Epilogue {
    const float *a_scale, *b_scale, *out_scale;
    const void *bias, *residual;
    void* out;
    int64_t residual_stride, out_stride;
    DType bias_dtype, residual_dtype, out_dtype;
    Gemm::Activation activation;
    bool bias_vectors, residual_vectors, out_vectors;
};

__device__ __forceinline__ void add_four(DType dtype, const void* data, int64_t index, int count,
                                         bool vectors, float (&value)[4]) {
    kit::with_type(dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        const auto four = kit::load_vector<4>(static_cast<const T*>(data) + index, count, vectors);
#pragma unroll
        for (int i = 0; i < 4; ++i) value[i] += kit::to_float(four[i]);
    });
}

__device__ __forceinline__ void store_four(DType dtype, void* data, int64_t index, int count, bool vectors,
                                           const float (&value)[4]) {
    kit::with_type(dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        kit::store_vector(static_cast<T*>(data) + index, kit::from_floats<T>(value), count, vectors);
    });
}

// The two factors of the whole product, read once a thread.
struct Scales {
    float product, inverse_out;
};
__device__ __forceinline__ Scales load_scales(const Epilogue& e) {
    Scales s{1.0f, 1.0f};
    if (e.a_scale != nullptr) s.product = *e.a_scale;
    if (e.b_scale != nullptr) s.product *= *e.b_scale;
    if (e.out_scale != nullptr) s.inverse_out = 1.0f / *e.out_scale;
    return s;
}

// Columns [column, column + count) of a row; count may exceed four.
__device__ __forceinline__ void finish_four(const Epilogue& e, const Scales& s, int64_t row, int64_t column,
                                            int count, float (&value)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) value[i] *= s.product;
    if (e.bias != nullptr) add_four(e.bias_dtype, e.bias, column, count, e.bias_vectors, value);
    if (e.activation != Gemm::Activation::none) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            value[i] = e.activation == Gemm::Activation::gelu_tanh ? kit::gelu_tanh(value[i])
                                                                   : kit::gelu_erf(value[i]);
        }
    }
    if (e.residual != nullptr) {
        add_four(e.residual_dtype, e.residual, row * e.residual_stride + column, count, e.residual_vectors,
                 value);
    }
    if (e.out_scale != nullptr) {
#pragma unroll
        for (int i = 0; i < 4; ++i) value[i] *= s.inverse_out;
    }
    store_four(e.out_dtype, e.out, row * e.out_stride + column, count, e.out_vectors, value);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
