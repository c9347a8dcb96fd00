// A block finds the largest magnitude of a row, then writes the row as fp8 or int8 with the scale that follows.
#pragma once

#include "kit/elementwise.cuh"
#include "kit/narrow.cuh"

namespace weft::inline WEFT_TARGET::kit {

struct QuantizedRows {
    std::int64_t rows = 0, dim = 0;
    VectorRows out;
    float* scale = nullptr;  // one a row
};

// Vectors that each thread keeps in registers between the two steps; those of longer rows are computed twice.
inline constexpr int kKeptVectors = 4;
inline constexpr int kMaxRowThreads = 512;

// Host: one block a row, as many threads as keep the whole row if that is possible.
inline LaunchShape row_quantize_shape(std::int64_t rows, std::int64_t dim, int width) {
    const std::int64_t wanted = (dim + width * kKeptVectors - 1) / (width * kKeptVectors);
    const auto threads =
        static_cast<unsigned>(std::clamp<std::int64_t>((wanted + 31) / 32 * 32, 32, kMaxRowThreads));
    const auto blocks = static_cast<unsigned>(std::clamp<std::int64_t>(rows, 1, 0x7fffffff));
    return {.grid = dim3(blocks), .block = dim3(threads), .dependent = true};
}

// The elements of rows, each times its column's factor where there are any, as a source for what follows.
template <class T, int N>
struct PlainRows {
    VectorRows x, multiplier;  // one a column, or absent
    std::int64_t dim;

    template <int kCount>
    struct Batch {
        Vec<T, N> x[kCount];
    };
    // `dim`: 0 where the row is not there.
    template <int kCount>
    __device__ __forceinline__ void load(Batch<kCount>& batch, std::int64_t row, std::int64_t dim,
                                         std::int64_t column, std::int64_t step) const {
        load_batch(batch.x, static_cast<const T*>(x.data) + row * x.stride, dim, column, step, x.aligned);
    }
    template <int kCount>
    __device__ __forceinline__ void values(const Batch<kCount>& batch, int b, std::int64_t column,
                                           float (&values)[N]) const {
        to_floats(batch.x[b], values);
        scale_channels(column, values);
    }
    __device__ __forceinline__ void scale_channels(std::int64_t column, float (&values)[N]) const {
        kit::scale_channels(multiplier, dim, column, values);
    }
};

// `source.load(batch, row, dim, column, step)` loads a `Source::Batch<n>` of vectors, zeros beyond the row's
// end; `source.values(batch, b, column, values)` gives vector b, at that column, in fp32.
template <int kWidth, class Source>
__device__ __forceinline__ void quantize_rows(const QuantizedRows& q, const Source& source) {
    BlockGroup group{.lanes = static_cast<int>(blockDim.x)};
    const AmaxOrNan largest{.keeps_nan = q.out.dtype == DType::int8};
    const std::int64_t step = static_cast<std::int64_t>(blockDim.x) * kWidth, first = threadIdx.x * kWidth;
    const std::int64_t rest = first + kKeptVectors * step;
    for (std::int64_t row = blockIdx.x; row < q.rows; row += gridDim.x) {
        float kept[kKeptVectors][kWidth], more[kWidth], amax = 0.0f;
        {
            typename Source::template Batch<kKeptVectors> batch;
            source.load(batch, row, q.dim, first, step);
#pragma unroll
            for (int i = 0; i < kKeptVectors; ++i) {
                source.values(batch, i, first + i * step, kept[i]);
#pragma unroll
                for (float value : kept[i]) amax = largest(amax, fabsf(value));
            }
        }
        for (std::int64_t column = rest; column < q.dim; column += step) {
            typename Source::template Batch<1> batch;
            source.load(batch, row, q.dim, column, step);
            source.values(batch, 0, column, more);
#pragma unroll
            for (float value : more) amax = largest(amax, fabsf(value));
        }

        const float scale = dynamic_scale(group.reduce(amax, largest), q.out.dtype), inverse = 1.0f / scale;
        if (threadIdx.x == 0) q.scale[row] = scale;

        const auto write = [&](std::int64_t column, float (&values)[kWidth]) {
#pragma unroll
            for (float& value : values) value *= inverse;
            store_floats(q.out.dtype, q.out.data, row * q.out.stride + column, values,
                         left<kWidth>(q.dim, column), q.out.aligned);
        };
#pragma unroll
        for (int i = 0; i < kKeptVectors; ++i) write(first + i * step, kept[i]);
        for (std::int64_t column = rest; column < q.dim; column += step) {
            typename Source::template Batch<1> batch;
            source.load(batch, row, q.dim, column, step);
            source.values(batch, 0, column, more);
            write(column, more);
        }
    }
}

// Elements that a thread has of a row whose groups have scales: a group of NVFP4, so that all that is done once a group is
// done once in 16 elements.
inline constexpr int kGroupWidth = 16;

// The same with a scale for each group of columns, which one lane or neighbouring ones hold: every vector is loaded once.
// All threads of the block call this. `tensor`: the scale over those of the groups.
template <class Source>
__device__ __forceinline__ void quantize_groups(const GroupedRows& out, const RowTiles& tiles,
                                                const Source& source, float tensor) {
    constexpr int N = kGroupWidth;
    const int lanes = group_columns(out.groups.dtype) / N;
    for_each_tile_together<N>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t dim) {
        typename Source::template Batch<1> batch;
        source.load(batch, row, dim, column, N);
        float values[N];
        source.values(batch, 0, column, values);
        store_group(out, row * out.stride, row, column, left<N>(dim, column), values, lanes, tensor);
    });
}

// Host: tiles for that, where scales are stored as `scales`.
inline RowTiles tile_groups(std::int64_t rows, std::int64_t dim, DType scales, const DeviceInfo& device,
                            std::int64_t max_blocks = std::int64_t{1} << 30) {
    return tile_rows(rows, dim, kGroupWidth, 1, device, max_blocks, group_columns(scales) / kGroupWidth);
}

}  // namespace weft::inline WEFT_TARGET::kit
