// Operands of elementwise kernels: rows of vectors, and a thread's part of one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "kit/convert.cuh"
#include "kit/l2_keep.h"
#include "kit/row_tiles.cuh"
#include "weft/tensor.h"

namespace weft::inline WEFT_TARGET::kit {

// One operand: rows of vectors of some dtype.
struct VectorRows {
    void* data = nullptr;     // null: absent
    std::int64_t stride = 0;  // elements from a row to the next
    unsigned pitch = 0;       // the same in bytes, which whole vectors are found by
    DType dtype = DType::fp32;
    bool aligned = false;  // every row begins where a vector may be loaded whole
    bool keep = false;     // L2 keeps it after all else (L2Policy)
};

// Host: `tensor` in vectors of `width`.
inline VectorRows vector_rows(const Tensor& tensor, int width) {
    if (!tensor) return {};
    const std::int64_t stride = fold_rows(tensor)->stride;
    return {.data = tensor.data,
            .stride = stride,
            .pitch = static_cast<unsigned>(bytes(tensor.dtype, stride)),
            .dtype = tensor.dtype,
            .aligned = rows_aligned(tensor, width)};
}
// Host: the same of a tensor whose rows may be one long row of the tiles: then only that one's beginning counts.
inline VectorRows vector_rows(const Tensor& tensor, int width, const RowTiles& tiles) {
    VectorRows rows = vector_rows(tensor, width);
    if (!tensor || tiles.rows > 1) return rows;
    rows.stride = rows.pitch = 0;
    rows.aligned = begins_aligned(tensor, width);
    return rows;
}
// Host: the same of tensors that a kernel reads once; where L2 could not hold one, whole vectors of it are kept there.
inline VectorRows kept(VectorRows rows, const Tensor& tensor, const DeviceInfo& device) {
    rows.keep = tensor && l2_keeps_input(bytes(tensor.dtype, tensor.numel()), device);
    return rows;
}
inline VectorRows input_rows(const Tensor& tensor, int width, const DeviceInfo& device) {
    return kept(vector_rows(tensor, width), tensor, device);
}
inline VectorRows input_rows(const Tensor& tensor, int width, const DeviceInfo& device,
                             const RowTiles& tiles) {
    return kept(vector_rows(tensor, width, tiles), tensor, device);
}

// A thread's vector in the tiles of a batch of one: one of which it is known when the kernel is compiled that
// it is whole, or elements [0, count) of one.
struct WholeVector {
    unsigned row, vector;
};
struct PartVector {
    std::int64_t row, column;
    int count;
};

// Host: tiles for rows of tensors of one shape, absent ones too. `fold`: rows without gaps in all of them are one long row.
inline RowTiles tile_tensors(std::initializer_list<const Tensor*> tensors, int width, bool fold,
                             const DeviceInfo& device) {
    const Tensor& first =
        **std::find_if(tensors.begin(), tensors.end(), [](const Tensor* t) { return !!*t; });
    std::int64_t rows = fold_rows(first)->rows, dim = first.dim(-1);
    const auto all = [&](auto holds) {
        return std::all_of(tensors.begin(), tensors.end(), [&](const Tensor* t) { return !*t || holds(*t); });
    };
    if (rows == 1 || (fold && all([&](const Tensor& t) { return fold_rows(t)->stride == dim; })))
        dim *= std::exchange(rows, 1);
    return tile_rows(rows, dim, width, 1, device);
}

// Whether it is a row's first one.
__device__ __forceinline__ bool begins_row(const WholeVector& at) { return at.vector == 0; }
__device__ __forceinline__ bool begins_row(const PartVector& at) { return at.column == 0; }

// A thread's elements of the row that begins at `row`; `fill` for those that the row has not.
template <int N, class T>
__device__ __forceinline__ Vec<T, N> load_at(const T* row, const WholeVector& at, bool aligned, T = T()) {
    return load_vector<N>(row + std::int64_t{at.vector} * N, N, aligned);
}
template <int N, class T>
__device__ __forceinline__ Vec<T, N> load_at(const T* row, const PartVector& at, bool aligned, T fill = T()) {
    return load_vector<N>(row + at.column, at.count, aligned, fill);
}

template <class T, int N>
__device__ __forceinline__ Vec<T, N> load(const VectorRows& rows, const WholeVector& at) {
    const char* row = static_cast<const char*>(rows.data) + std::uint64_t{at.row} * rows.pitch;
    const T* from = reinterpret_cast<const T*>(row + std::uint64_t{at.vector} * (N * sizeof(T)));
    return load_aligned<N>(from, l2_policy(rows.keep));
}
template <class T, int N, class At>
__device__ __forceinline__ Vec<T, N> load(const VectorRows& rows, const At& at) {
    return load_at<N>(static_cast<const T*>(rows.data) + at.row * rows.stride, at, rows.aligned);
}

template <class T, int N>
__device__ __forceinline__ void store(const VectorRows& rows, const WholeVector& at,
                                      const float (&values)[N]) {
    char* row = static_cast<char*>(rows.data) + std::uint64_t{at.row} * rows.pitch;
    store_aligned(reinterpret_cast<T*>(row + std::uint64_t{at.vector} * (N * sizeof(T))),
                  from_floats<T>(values));
}
template <class T, int N>
__device__ __forceinline__ void store(const VectorRows& rows, const PartVector& at,
                                      const float (&values)[N]) {
    T* to = static_cast<T*>(rows.data) + at.row * rows.stride + at.column;
    store_vector(to, from_floats<T>(values), at.count, rows.aligned);
}

// A vector that is one row for all rows.
inline VectorRows shared_vector(const Tensor& tensor, int width) {
    VectorRows rows = vector_rows(tensor, width);
    rows.stride = rows.pitch = 0;
    return rows;
}

// A thread's elements of one row that all rows share, which need not begin where a vector may, widened; `fill` for those
// that the row has not.
template <int N, class At>
__device__ __forceinline__ void load_shared(const VectorRows& from, const At& at, float fill,
                                            float (&to)[N]) {
    with_wide_type(from.dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        to_floats(load_at<N>(static_cast<const T*>(from.data), at, from.aligned, from_float<T>(fill)), to);
    });
}

// Multiplies a thread's elements by one factor a column, where there are factors.
template <int N, class At>
__device__ __forceinline__ void scale_channels(const VectorRows& factors, const At& at, float (&values)[N]) {
    if (factors.data == nullptr) return;
    float by[N];
    load_shared(factors, at, 1.0f, by);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] *= by[i];
}

}  // namespace weft::inline WEFT_TARGET::kit
