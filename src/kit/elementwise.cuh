// What elementwise kernels share: a grid of threads over rows of vectors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "kit/convert.cuh"
#include "kit/divisor.cuh"
#include "kit/l2_keep.h"
#include "kit/launch.h"
#include "kit/ptx/pdl.cuh"
#include "kit/target.h"
#include "kit/vector.cuh"
#include "weft/device_info.h"
#include "weft/tensor.h"

namespace weft::inline WEFT_TARGET::kit {

// A block is `lanes` threads along a row (a power of two) by blockDim.x / lanes rows. Each thread takes a
// batch of vectors of its row, `lanes` vectors apart, so that its loads are independent and its warp's are
// contiguous.
struct RowTiles {
    std::int64_t rows = 0, dim = 0;
    unsigned vectors = 0;  // in a row, the last one perhaps in part
    int lanes_log2 = 0;
    unsigned threads = 32, column_blocks = 1, row_blocks = 1, layers = 1;  // row_blocks in each of the layers

    LaunchShape shape() const {
        return {.grid = dim3(column_blocks, row_blocks, layers), .block = dim3(threads), .dependent = true};
    }
    std::string describe() const {
        return "threads=" + std::to_string(threads) + " lanes=" + std::to_string(1 << lanes_log2) +
               " grid=" + std::to_string(column_blocks) + "x" + std::to_string(row_blocks) +
               (layers > 1 ? "x" + std::to_string(layers) : "");
    }
};

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Host: how many lanes share a row: at least a warp along a row that has as many vectors, more if every lane
// then has a full batch, fewer (down to 8, or to `least`) where the row's end would leave more of them idle.
inline int row_lanes_log2(std::int64_t vectors, int batch, unsigned threads, int least = 1) {
    int log2 = 0;
    while ((1u << log2) < threads && (1 << log2) < (log2 < 5 ? vectors : divide_up(vectors, batch))) ++log2;
    while (1 << log2 < least) ++log2;
    const auto padded = [&](int lanes_log2) {
        const std::int64_t tile = static_cast<std::int64_t>(batch) << lanes_log2;
        return divide_up(vectors, tile) * tile;
    };
    for (int fewer = log2 - 1; fewer >= 3 && 1 << fewer >= least; --fewer) {
        if (padded(fewer) * 17 < padded(log2) * 16) log2 = fewer;
    }
    return log2;
}

// Host: tiles for rows of `dim` elements in vectors of `width`, `batch` a thread. Blocks shrink until there
// is one for every multiprocessor; `max_blocks` bounds the grid, whose threads then loop. `least_lanes`: of a row, a
// power of two up to 32.
inline RowTiles tile_rows(std::int64_t rows, std::int64_t dim, int width, int batch, const DeviceInfo& device,
                          std::int64_t max_blocks = std::int64_t{1} << 30, int least_lanes = 1) {
    const std::int64_t vectors = std::max<std::int64_t>(1, divide_up(dim, width));
    RowTiles tiles{.rows = rows, .dim = dim, .vectors = static_cast<unsigned>(vectors)};
    for (unsigned threads = 256;; threads /= 2) {
        tiles.lanes_log2 = row_lanes_log2(vectors, batch, threads, least_lanes);
        tiles.threads = threads;
        const std::int64_t columns = divide_up(vectors, std::int64_t{batch} << tiles.lanes_log2);
        const std::int64_t tall = divide_up(rows, threads >> tiles.lanes_log2);
        if (threads > 64 && columns * tall < device.sms) continue;
        tiles.column_blocks = static_cast<unsigned>(std::clamp<std::int64_t>(columns, 1, max_blocks));
        const std::int64_t down =
            std::clamp<std::int64_t>(tall, 1, std::max<std::int64_t>(1, max_blocks / tiles.column_blocks));
        tiles.row_blocks = static_cast<unsigned>(std::min<std::int64_t>(down, 65535));
        tiles.layers = static_cast<unsigned>(
            std::min<std::int64_t>(divide_up(down, tiles.row_blocks), max_blocks > 65535 ? 65535 : 1));
        return tiles;
    }
}

// Host: rows without gaps between them, in every operand, are one long row.
inline void fold_dense(std::int64_t& rows, std::int64_t& dim, std::initializer_list<std::int64_t> strides) {
    const bool dense = std::all_of(strides.begin(), strides.end(), [&](std::int64_t s) { return s == dim; });
    if (!dense && rows != 1) return;
    dim *= rows;
    rows = 1;
}

// Calls body(row, column, step) for the thread's tiles: the batch's vectors begin at column, column + step,
// …, and may lie wholly or partly beyond the row's end.
template <int kWidth, int kBatch, class Body>
__device__ __forceinline__ void for_each_tile(const RowTiles& tiles, Body body) {
    const int lanes = 1 << tiles.lanes_log2, lane = static_cast<int>(threadIdx.x) & (lanes - 1);
    const std::int64_t step = lanes * kWidth;
    const std::int64_t rows_a_block = blockDim.x >> tiles.lanes_log2;
    const std::int64_t first_row =
        (blockIdx.z * gridDim.y + blockIdx.y) * rows_a_block + (threadIdx.x >> tiles.lanes_log2);
    const std::int64_t next_row = gridDim.z * gridDim.y * rows_a_block;
    const std::int64_t first_column = blockIdx.x * (step * kBatch) + lane * kWidth;
    for (std::int64_t row = first_row; row < tiles.rows; row += next_row) {
        for (std::int64_t column = first_column; column < tiles.dim; column += gridDim.x * (step * kBatch)) {
            body(row, column, step);
        }
    }
}

// Calls body(row, column, dim) for the thread's vectors, one at a time and all threads of the block together: dim is 0
// for a thread that has no row.
template <int kWidth, class Body>
__device__ __forceinline__ void for_each_tile_together(const RowTiles& tiles, Body body) {
    const int lanes = 1 << tiles.lanes_log2, lane = static_cast<int>(threadIdx.x) & (lanes - 1);
    const std::int64_t step = lanes * kWidth, rows_a_block = blockDim.x >> tiles.lanes_log2;
    const std::int64_t first_row = (blockIdx.z * gridDim.y + blockIdx.y) * rows_a_block;
    for (std::int64_t top = first_row; top < tiles.rows; top += gridDim.z * gridDim.y * rows_a_block) {
        const std::int64_t row = top + (threadIdx.x >> tiles.lanes_log2),
                           dim = row < tiles.rows ? tiles.dim : 0;
        for (std::int64_t begin = blockIdx.x * step; begin < tiles.dim; begin += gridDim.x * step)
            body(row, begin + lane * kWidth, dim);
    }
}

// How many of a vector's N elements lie before the end: at most N, not positive where none does.
template <int N>
__device__ __forceinline__ int left(std::int64_t dim, std::int64_t column) {
    return static_cast<int>(dim - column < N ? dim - column : N);
}

// Whether all of a batch's vectors are whole: then one branch leads to loads that are all in flight together.
// A branch for each vector would let the compiler unpack, and so wait for, each before it issues the next.
template <int N, int kBatch>
__device__ __forceinline__ bool whole_batch(std::int64_t dim, std::int64_t column, std::int64_t step) {
    return column + (kBatch - 1) * step + N <= dim;
}
template <int N, int kBatch, class T>
__device__ __forceinline__ void load_whole(Vec<T, N> (&vectors)[kBatch], const T* row, std::int64_t column,
                                           std::int64_t step) {
#pragma unroll
    for (int b = 0; b < kBatch; ++b) vectors[b] = load_aligned<N>(row + column + b * step);
}
// The same for batches that reach beyond the row, or rows that are not aligned.
template <int N, int kBatch, class T>
__device__ __forceinline__ void load_parts(Vec<T, N> (&vectors)[kBatch], const T* row, std::int64_t dim,
                                           std::int64_t column, std::int64_t step, bool aligned) {
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
        vectors[b] = load_vector<N>(row + column + b * step, left<N>(dim, column + b * step), aligned);
    }
}
// A batch of one tensor.
template <int N, int kBatch, class T>
__device__ __forceinline__ void load_batch(Vec<T, N> (&vectors)[kBatch], const T* row, std::int64_t dim,
                                           std::int64_t column, std::int64_t step, bool aligned) {
    if (aligned && whole_batch<N, kBatch>(dim, column, step)) {
        load_whole(vectors, row, column, step);
    } else {
        load_parts(vectors, row, dim, column, step, aligned);
    }
}

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
// Host: the same of a tensor that a kernel reads once; where L2 could not hold it, whole vectors of it are kept there.
inline VectorRows input_rows(const Tensor& tensor, int width, const DeviceInfo& device) {
    VectorRows rows = vector_rows(tensor, width);
    rows.keep = tensor && l2_keeps_input(bytes(tensor.dtype, tensor.numel()), device);
    return rows;
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

// Whether it is a row's first one.
__device__ __forceinline__ bool begins_row(const WholeVector& at) { return at.vector == 0; }
__device__ __forceinline__ bool begins_row(const PartVector& at) { return at.column == 0; }

template <int N>
__device__ __forceinline__ std::int64_t column_of(const WholeVector& at) {
    return std::int64_t{at.vector} * N;
}
template <int N>
__device__ __forceinline__ std::int64_t column_of(const PartVector& at) {
    return at.column;
}

template <class T, int N>
__device__ __forceinline__ Vec<T, N> load(const VectorRows& rows, const WholeVector& at) {
    const char* row = static_cast<const char*>(rows.data) + std::uint64_t{at.row} * rows.pitch;
    const T* from = reinterpret_cast<const T*>(row + std::uint64_t{at.vector} * (N * sizeof(T)));
    return load_aligned<N>(from, l2_policy(rows.keep));
}
template <class T, int N>
__device__ __forceinline__ Vec<T, N> load(const VectorRows& rows, const PartVector& at) {
    const T* from = static_cast<const T*>(rows.data) + at.row * rows.stride + at.column;
    return load_vector<N>(from, at.count, rows.aligned);
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

// Elements of a row, widened: the first `count` of a vector, and `fill` for the others.
template <int N>
__device__ __forceinline__ void load_floats(const VectorRows& from, std::int64_t row, std::int64_t column,
                                            int count, float fill, float (&to)[N]) {
    with_wide_type(from.dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        const T* data = static_cast<const T*>(from.data) + row * from.stride + column;
        to_floats(load_vector<N>(data, count, from.aligned, from_float<T>(fill)), to);
    });
}

// Multiplies the vector at `column` of a row of `dim` by one factor a column, where there are factors.
template <int N>
__device__ __forceinline__ void scale_channels(const VectorRows& factors, std::int64_t dim,
                                               std::int64_t column, float (&values)[N]) {
    if (factors.data == nullptr) return;
    float by[N];
    load_floats(factors, 0, column, left<N>(dim, column), 1.0f, by);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] *= by[i];
}

// Kernels are templates over their dtypes. For the pairs that production runs, and operands of whole vectors,
// there is an instantiation in which everything is known: its code is straight, its loads are in flight
// together. All else takes an instantiation whose output has the type Any: its dtype is chosen once, outside
// of the loops, and vectors may be parts.
struct Any {};
// A vector, widened. T is Any where the operand's dtype is not known.
template <class T, int N, class At>
__device__ __forceinline__ void load_row(const VectorRows& in, const At& at, float (&values)[N]) {
    if constexpr (std::is_same_v<T, Any>) {
        with_type(in.dtype, [&](auto* type) {
            to_floats(load<std::remove_pointer_t<decltype(type)>, N>(in, at), values);
        });
    } else {
        to_floats(load<T, N>(in, at), values);
    }
}
template <class In_, class Out_ = In_>
struct Types {
    using In = In_;
    using Out = Out_;
};

// Host: calls use(Types<In, Out>()) with that of the pairs which `in` and `out` are, if there is one.
template <class... Pairs, class Use>
bool with_types(DType in, DType out, Use use) {
    return ((kDTypeOf<typename Pairs::In> == in && kDTypeOf<typename Pairs::Out> == out &&
             (use(Pairs()), true)) ||
            ...);
}

// Host: whether all vectors of the tiles are whole, in every operand, and each has a thread.
inline bool whole_vectors(const RowTiles& tiles, int width, std::initializer_list<VectorRows> operands) {
    const std::int64_t rows_a_block = tiles.threads >> tiles.lanes_log2;
    return tiles.dim == std::int64_t{width} * tiles.vectors && tiles.rows >> 31 == 0 &&
           std::int64_t{tiles.column_blocks} << tiles.lanes_log2 >= tiles.vectors &&
           std::int64_t{tiles.row_blocks} * tiles.layers * rows_a_block >= tiles.rows &&
           std::all_of(operands.begin(), operands.end(), [](const VectorRows& o) {
               return o.data == nullptr || (o.aligned && o.stride >= 0 && o.stride < 1 << 29);
           });
}

// Waits for the kernels before, lets the next one start, then calls body(a null pointer of the output's type,
// the thread's vector): once, or, where Out is Any, for all vectors that the thread loops over.
template <int kWidth, class Out, class Body>
__device__ __forceinline__ void for_each_vector(const RowTiles& tiles, [[maybe_unused]] DType out,
                                                Body body) {
    if constexpr (std::is_same_v<Out, Any>) {
        dependency_wait();
        dependents_launch();
        with_type(out, [&](auto* type) {
            for_each_tile<kWidth, 1>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t) {
                body(type, PartVector{row, column, left<kWidth>(tiles.dim, column)});
            });
        });
    } else {
        const unsigned block_row = blockIdx.z * gridDim.y + blockIdx.y, lanes = 1u << tiles.lanes_log2;
        const WholeVector at{block_row * (blockDim.x >> tiles.lanes_log2) + (threadIdx.x >> tiles.lanes_log2),
                             blockIdx.x * lanes + (threadIdx.x & (lanes - 1))};
        dependency_wait();
        dependents_launch();
        if (at.row < static_cast<unsigned>(tiles.rows) && at.vector < tiles.vectors)
            body(static_cast<Out*>(nullptr), at);
    }
}

// Elements [0, count) of a vector at element `index` of an array of fp32, bf16 or fp16, widened; `fill` where there is no
// array.
template <int N>
__device__ __forceinline__ void load_floats_or(float fill, DType dtype, const void* data, std::int64_t index,
                                               float (&values)[N], int count, bool aligned) {
    if (data == nullptr) {
#pragma unroll
        for (float& value : values) value = fill;
        return;
    }
    with_wide_type(dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        to_floats(load_vector<N>(static_cast<const T*>(data) + index, count, aligned), values);
    });
}

// Elements [0, count) of `values` as `dtype`, at element `index` of an array.
template <int N>
__device__ __forceinline__ void store_floats(DType dtype, void* data, std::int64_t index,
                                             const float (&values)[N], int count, bool aligned) {
    with_type(dtype, [&](auto* type) {
        using Out = std::remove_pointer_t<decltype(type)>;
        store_vector(static_cast<Out*>(data) + index, from_floats<Out>(values), count, aligned);
    });
}

}  // namespace weft::inline WEFT_TARGET::kit
