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

// Four neighbours of a row as they are stored: 16-bit elements in x and y, 8-bit ones in x. Unpacked they would be waited for
// where they are loaded; so all that a result needs is on its way at once.
using StoredFour = uint4;
__device__ __forceinline__ StoredFour load_four(DType dtype, const void* data, int64_t index, int count,
                                                bool vectors) {
    StoredFour four = {};
    const auto load = [&](auto* from, auto vector) {
        if (vectors && count >= 4) {
            vector = kit::load(reinterpret_cast<const decltype(vector)*>(from));
            memcpy(&four, &vector, sizeof(vector));
        } else {
            const auto elements =
                kit::load_elements<4>(from, count, std::remove_cv_t<std::remove_pointer_t<decltype(from)>>());
            memcpy(&four, static_cast<const void*>(&elements), sizeof(elements));
        }
    };
    dtype == DType::fp32 ? load(static_cast<const float*>(data) + index, uint4())
                         : load(static_cast<const uint16_t*>(data) + index, uint2());
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

// Four neighbouring columns, `count` of them wanted, which may exceed four, and what they add to every row.
struct FourColumns {
    int64_t at;
    int count;
    StoredFour scale, up_scale, bias, up_bias;
};
__device__ __forceinline__ FourColumns load_columns(const Epilogue& e, int64_t at, int count) {
    const auto load = [&](const ByColumn& columns) {
        return columns.data == nullptr || count <= 0
                   ? StoredFour{}
                   : load_four(columns.dtype, columns.data, at, count, columns.vectors);
    };
    return {at, count, load(e.channel_scale), load(e.up_channel_scale), load(e.bias), load(e.up_bias)};
}

// Their results in a row, and what these are made of: the sums, which they replace, of one product or of both, and what the
// row adds.
struct Four {
    int64_t row;
    bool wanted;
    float value[4], up[4];
    float token_scale;
    StoredFour gate, residual;
};
__device__ __forceinline__ void load_addends(const Epilogue& e, const FourColumns& columns, Four& four) {
    four.token_scale = e.token_scale != nullptr ? e.token_scale[four.row] : 1.0f;
    four.gate = load_beside(e.gate, four.row, columns.at, columns.count);
    four.residual = load_beside(e.residual, four.row, columns.at, columns.count);
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

// use(value, element) for the results of all rows, and a column's element.
template <int kRows, class F>
__device__ __forceinline__ void by_columns(DType dtype, const StoredFour& stored, float (Four::*values)[4],
                                           Four (&rows)[kRows], F use) {
    each_stored(dtype, stored, [&](int i, float element) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) use((rows[r].*values)[i], element);
    });
}
// The same with an element of their own for each.
template <int kRows, class F>
__device__ __forceinline__ void by_elements(DType dtype, StoredFour Four::* stored, Four (&rows)[kRows],
                                            F use) {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
        each_stored(dtype, rows[r].*stored, [&](int i, float element) { use(rows[r].value[i], element); });
}

// `factor`: of the tensors' scales. What is absent changes nothing.
template <int kRows>
__device__ __forceinline__ void scale_and_bias(float factor, const ByColumn& scale,
                                               const StoredFour& stored_scale, const ByColumn& bias,
                                               const StoredFour& stored_bias, float (Four::*values)[4],
                                               Four (&rows)[kRows]) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        const float by = factor * rows[r].token_scale;
#pragma unroll
        for (int i = 0; i < 4; ++i) (rows[r].*values)[i] *= by;
    }
    if (scale.data != nullptr)
        by_columns(DType::fp32, stored_scale, values, rows, [](float& value, float by) { value *= by; });
    if (bias.data != nullptr)
        by_columns(bias.dtype, stored_bias, values, rows, [](float& value, float added) { value += added; });
}

// Results as they are stored, of elements of as many bytes as Word has, to where a row may begin anywhere.
template <class Word>
__device__ __forceinline__ void store_four(void* out, int64_t index, const StoredFour& stored, int count,
                                           bool vectors) {
    kit::Vec<Word, 4> words;
    memcpy(static_cast<void*>(&words), &stored, sizeof(words));
    kit::store_vector(static_cast<Word*>(out) + index, words, count, vectors);
}

// For kernels whose threads hold four neighbouring sums of some rows. Each step is one pass over them all, so that its choices
// are made once, and a result need not wait for another. `up` is not looked at where nothing is gated.
template <int kRows>
__device__ __forceinline__ void finish_fours(const Epilogue& e, const Scales& s, const FourColumns& columns,
                                             Four (&rows)[kRows]) {
    const auto each = [&](auto use) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
#pragma unroll
            for (int i = 0; i < 4; ++i) use(rows[r], i);
        }
    };
    scale_and_bias(s.product, e.channel_scale, columns.scale, e.bias, columns.bias, &Four::value, rows);
    with_activation(
        e, [&](auto activate) { each([&](Four& four, int i) { four.value[i] = activate(four.value[i]); }); });
    if (e.gated) {
        scale_and_bias(s.up, e.up_channel_scale, columns.up_scale, e.up_bias, columns.up_bias, &Four::up,
                       rows);
        each([](Four& four, int i) { four.value[i] *= four.up[i]; });
    }
    if (e.gate.data != nullptr)
        by_elements(e.gate.dtype, &Four::gate, rows, [](float& value, float factor) { value *= factor; });
    if (e.residual.data != nullptr)
        by_elements(e.residual.dtype, &Four::residual, rows,
                    [](float& value, float added) { value += added; });
    if (e.out_scale != nullptr) each([&](Four& four, int i) { four.value[i] *= s.inverse_out; });

    StoredFour stored[kRows] = {};
    kit::with_type(e.out_dtype, [&](auto* type) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            const auto vector = kit::from_floats<std::remove_pointer_t<decltype(type)>>(rows[r].value);
            memcpy(&stored[r], static_cast<const void*>(&vector), sizeof(vector));
        }
    });
    const int bytes = kit::stored_bytes(e.out_dtype);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        if (!rows[r].wanted) continue;
        const int64_t index = rows[r].row * e.out_stride + columns.at;
        if (bytes == 2) {
            store_four<uint16_t>(e.out, index, stored[r], columns.count, e.out_vectors);
        } else if (bytes == 4) {
            store_four<float>(e.out, index, stored[r], columns.count, e.out_vectors);
        } else {
            store_four<uint8_t>(e.out, index, stored[r], columns.count, e.out_vectors);
        }
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
