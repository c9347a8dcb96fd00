// What the gemm kernels do with their sums: scale, bias, activation, gating, residual, store.
#pragma once

#include "kit/activation.cuh"
#include "kit/convert.cuh"
#include "kit/vector.cuh"
#include "ops/gemm/gemm.h"

namespace weft::inline WEFT_TARGET {
namespace {

// Added to every row of a product. Null where absent. `vectors`: four elements may be read at once.
struct Bias {
    const void* data;
    DType dtype;
    bool vectors;
};

// Pointers are null where the operand is absent. `..._vectors`: every row begins where four elements may be
// accessed at once.
struct Epilogue {
    const float *a_scale, *b_scale, *up_scale, *out_scale;
    Bias bias, up_bias;
    const void* residual;
    void* out;
    int64_t residual_stride, out_stride;
    DType residual_dtype, out_dtype;
    Gemm::Activation activation;
    bool gated, residual_vectors, out_vectors;
};

// The factors of whole products, read once a thread.
struct Scales {
    float product, up, inverse_out;
};
__device__ __forceinline__ Scales load_scales(const Epilogue& e) {
    const float a = e.a_scale != nullptr ? *e.a_scale : 1.0f;
    return {e.b_scale != nullptr ? a * *e.b_scale : a, e.up_scale != nullptr ? a * *e.up_scale : a,
            e.out_scale != nullptr ? 1.0f / *e.out_scale : 1.0f};
}

// Calls `use` with the activation as a function; not at all where there is none. The choice is the same for
// the whole grid. Where out has 16 or 8 bits, the hardware's tanh is accurate enough (see the tolerance).
template <class F>
__device__ __forceinline__ void with_activation(const Epilogue& e, F use) {
    switch (e.activation) {
        case Gemm::Activation::gelu_tanh:
            if (e.out_dtype == DType::fp32) {
                use([](float x) { return kit::gelu_tanh(x); });
            } else {
                use([](float x) { return kit::gelu_tanh_approximate(x); });
            }
            break;
        case Gemm::Activation::gelu_erf: use([](float x) { return kit::gelu_erf(x); }); break;
        case Gemm::Activation::silu: use([](float x) { return kit::silu(x); }); break;
        default: break;
    }
}

// Four neighbours of a row as they are stored: 16-bit elements in x and y. Unpacked they would be waited for where they are
// loaded; so all that a result needs is on its way at once.
using StoredFour = uint4;
__device__ __forceinline__ StoredFour load_four(DType dtype, const void* data, int64_t index, int count, bool vectors) {
    StoredFour four = {};
    if (vectors && count >= 4) {
        if (dtype == DType::fp32) return kit::load(reinterpret_cast<const uint4*>(static_cast<const float*>(data) + index));
        const uint2 half = kit::load(reinterpret_cast<const uint2*>(static_cast<const uint16_t*>(data) + index));
        four.x = half.x, four.y = half.y;
        return four;
    }
    kit::with_wide_type(dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        const auto elements = kit::load_elements<4>(static_cast<const T*>(data) + index, count, T());
        memcpy(&four, static_cast<const void*>(&elements), sizeof(elements));
    });
    return four;
}
__device__ __forceinline__ void add_four(DType dtype, const StoredFour& four, float (&value)[4]) {
    kit::with_wide_type(dtype, [&](auto* type) {
        kit::Vec<std::remove_pointer_t<decltype(type)>, 4> elements;
        memcpy(static_cast<void*>(&elements), &four, sizeof(elements));
#pragma unroll
        for (int i = 0; i < 4; ++i) value[i] += kit::to_float(elements[i]);
    });
}

// What is added to four results, where there is any.
struct Addends {
    StoredFour bias, up_bias, residual;
};
__device__ __forceinline__ Addends load_addends(const Epilogue& e, int64_t row, int64_t column, int count) {
    Addends addends = {};
    const auto load = [&](const Bias& bias) {
        return bias.data == nullptr ? StoredFour{} : load_four(bias.dtype, bias.data, column, count, bias.vectors);
    };
    addends.bias = load(e.bias);
    addends.up_bias = load(e.up_bias);
    if (e.residual != nullptr) {
        addends.residual =
            load_four(e.residual_dtype, e.residual, row * e.residual_stride + column, count, e.residual_vectors);
    }
    return addends;
}

__device__ __forceinline__ void scale_and_bias(float scale, const Bias& bias, const StoredFour& four, float (&value)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) value[i] *= scale;
    if (bias.data != nullptr) add_four(bias.dtype, four, value);
}

__device__ __forceinline__ void store_four(DType dtype, void* data, int64_t index, int count, bool vectors,
                                           const float (&value)[4]) {
    kit::with_type(dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        kit::store_vector(static_cast<T*>(data) + index, kit::from_floats<T>(value), count, vectors);
    });
}

// Columns [column, column + count) of a row, for kernels that hold four neighbouring sums; count may exceed
// four. `up` is not looked at where nothing is gated.
__device__ __forceinline__ void finish_four(const Epilogue& e, const Scales& s, const Addends& addends, int64_t row,
                                            int64_t column, int count, float (&value)[4], float (&up)[4]) {
    scale_and_bias(s.product, e.bias, addends.bias, value);
    with_activation(e, [&](auto activate) {
#pragma unroll
        for (int i = 0; i < 4; ++i) value[i] = activate(value[i]);
    });
    if (e.gated) {
        scale_and_bias(s.up, e.up_bias, addends.up_bias, up);
#pragma unroll
        for (int i = 0; i < 4; ++i) value[i] *= up[i];
    }
    if (e.residual != nullptr) add_four(e.residual_dtype, addends.residual, value);
    if (e.out_scale != nullptr) {
#pragma unroll
        for (int i = 0; i < 4; ++i) value[i] *= s.inverse_out;
    }
    store_four(e.out_dtype, e.out, row * e.out_stride + column, count, e.out_vectors, value);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
