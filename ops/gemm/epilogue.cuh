// What the gemm kernels do with their sums: scale, bias, activation, gates, residual, store.
#pragma once

#include "kit/activation.cuh"
#include "kit/convert.cuh"
#include "kit/vector.cuh"
#include "ops/gemm/gemm.h"
#include "weft/row_map.h"

namespace weft::inline WEFT_TARGET {
namespace {

// One element for each column of a product: a bias, a scale. Null where absent. `vectors`: four elements may be read at once.
struct ByColumn {
    const void* data;
    DType dtype;
    bool vectors;
};

// An operand whose rows belong to those of out by a map. Null where absent. `vectors`: every row begins where four
// elements may be read at once.
struct RowsBeside {
    const void* data;
    DType dtype;
    bool vectors;
    RowMap map;

    // Elements from its first to where the row begins that belongs to row `row` of out. Count: holds the number of rows.
    template <class Count>
    __device__ int64_t offset(Count row) const {
        int64_t at = 0;
#pragma unroll 1
        for (int axis = map.axes - 1; axis > 0; --axis) {
            const auto size = static_cast<Count>(map.size[axis]);
            const Count outer = row / size;
            at += static_cast<int64_t>(row - outer * size) * map.stride[axis];
            row = outer;
        }
        return at + static_cast<int64_t>(row) * map.stride[0];
    }
};

// Pointers are null where the operand is absent. `gated`: there is up. `out_vectors`: every row begins where four elements
// may be written at once.
struct Epilogue {
    const float *a_scale, *b_scale, *up_scale, *out_scale;
    const float* token_scale;  // one a row
    ByColumn channel_scale, up_channel_scale, bias, up_bias;
    void* out;
    int64_t out_stride;
    DType out_dtype;
    Gemm::Activation activation;
    bool gated, out_vectors;
    RowsBeside residual, gate;
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

// An element as it is stored, and its value: apart, so that several are on their way at once.
__device__ __forceinline__ unsigned load_bits(DType dtype, const void* data, int64_t index) {
    return dtype == DType::fp32 ? static_cast<const unsigned*>(data)[index]
                                : static_cast<const uint16_t*>(data)[index];
}
__device__ __forceinline__ float value_of(DType dtype, unsigned bits) {
    if (dtype == DType::fp16) {
        kit::half value;
        memcpy(static_cast<void*>(&value), &bits, sizeof(value));
        return kit::to_float(value);
    }
    return __uint_as_float(dtype == DType::fp32 ? bits : bits << 16);
}

// Four neighbours of a row as they are stored: 16-bit elements in x and y. Unpacked they would be waited for where they are
// loaded; so all that a result needs is on its way at once.
using StoredFour = uint4;
__device__ __forceinline__ StoredFour load_four(DType dtype, const void* data, int64_t index, int count,
                                                bool vectors) {
    StoredFour four = {};
    if (vectors && count >= 4) {
        if (dtype == DType::fp32)
            return kit::load(reinterpret_cast<const uint4*>(static_cast<const float*>(data) + index));
        const uint2 half =
            kit::load(reinterpret_cast<const uint2*>(static_cast<const uint16_t*>(data) + index));
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
// The same of the row that belongs to row `row` of out: one element that stands for a whole row is there four times.
template <class Count>
__device__ __forceinline__ StoredFour load_beside(const RowsBeside& rows, Count row, int64_t column,
                                                  int count) {
    if (rows.data == nullptr) return {};
    const int64_t begin = rows.offset(row);
    if (!rows.map.single) return load_four(rows.dtype, rows.data, begin + column, count, rows.vectors);
    unsigned bits = load_bits(rows.dtype, rows.data, begin);
    if (rows.dtype != DType::fp32) bits *= 0x10001u;
    return {bits, bits, bits, bits};
}
// Four results, count of them wanted, and what they are made of: the sums, which they replace, of one product or of both,
// and what is added to them, where there is any.
struct Four {
    int64_t row, column;
    int count;  // may exceed four
    float value[4], up[4];
    float token_scale;
    StoredFour channel_scale, up_channel_scale, bias, up_bias, gate, residual;
};

__device__ __forceinline__ void load_addends(const Epilogue& e, Four& four) {
    const auto load = [&](const ByColumn& columns) {
        return columns.data == nullptr
                   ? StoredFour{}
                   : load_four(columns.dtype, columns.data, four.column, four.count, columns.vectors);
    };
    if (e.token_scale != nullptr) four.token_scale = e.token_scale[four.row];
    four.channel_scale = load(e.channel_scale);
    four.up_channel_scale = load(e.up_channel_scale);
    four.bias = load(e.bias);
    four.up_bias = load(e.up_bias);
    four.gate = load_beside(e.gate, four.row, four.column, four.count);
    four.residual = load_beside(e.residual, four.row, four.column, four.count);
}

// use(i, element) for four elements as they are stored.
template <class F>
__device__ __forceinline__ void each_stored(DType dtype, const StoredFour& stored, F use) {
    kit::with_wide_type(dtype, [&](auto* type) {
        kit::Vec<std::remove_pointer_t<decltype(type)>, 4> elements;
        memcpy(static_cast<void*>(&elements), &stored, sizeof(elements));
#pragma unroll
        for (int i = 0; i < 4; ++i) use(i, kit::to_float(elements[i]));
    });
}

// `factor`: of the tensors' scales and the row's. What is absent changes nothing.
__device__ __forceinline__ void scale_and_bias(float factor, const ByColumn& scale,
                                               const StoredFour& stored_scale, const ByColumn& bias,
                                               const StoredFour& stored_bias, float (&value)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) value[i] *= factor;
    if (scale.data != nullptr)
        each_stored(DType::fp32, stored_scale, [&](int i, float by) { value[i] *= by; });
    if (bias.data != nullptr)
        each_stored(bias.dtype, stored_bias, [&](int i, float added) { value[i] += added; });
}

// For kernels that hold four neighbouring sums. `up` is not looked at where nothing is gated.
__device__ __forceinline__ void finish_four(const Epilogue& e, const Scales& s, Four& four) {
    float (&value)[4] = four.value;
    const float by_token = e.token_scale != nullptr ? four.token_scale : 1.0f;
    scale_and_bias(s.product * by_token, e.channel_scale, four.channel_scale, e.bias, four.bias, value);
    with_activation(e, [&](auto activate) {
#pragma unroll
        for (int i = 0; i < 4; ++i) value[i] = activate(value[i]);
    });
    if (e.gated) {
        scale_and_bias(s.up * by_token, e.up_channel_scale, four.up_channel_scale, e.up_bias, four.up_bias,
                       four.up);
#pragma unroll
        for (int i = 0; i < 4; ++i) value[i] *= four.up[i];
    }
    if (e.gate.data != nullptr)
        each_stored(e.gate.dtype, four.gate, [&](int i, float factor) { value[i] *= factor; });
    if (e.residual.data != nullptr)
        each_stored(e.residual.dtype, four.residual, [&](int i, float added) { value[i] += added; });
    if (e.out_scale != nullptr) {
#pragma unroll
        for (int i = 0; i < 4; ++i) value[i] *= s.inverse_out;
    }
    kit::with_type(e.out_dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        kit::store_vector(static_cast<T*>(e.out) + four.row * e.out_stride + four.column,
                          kit::from_floats<T>(value), four.count, e.out_vectors);
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
