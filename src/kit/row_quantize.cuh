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
        kit::scale_channels(multiplier, PartVector{0, column, left<N>(dim, column)}, values);
    }
    // A whole vector, as it is loaded, and its elements where there are no factors.
    using Whole = Words<T, N>;
    __device__ __forceinline__ Whole load(const WholeVector& at) const {
        return as_words(kit::load<T, N>(x, at));
    }
    __device__ __forceinline__ void values(const Whole& loaded, float (&values)[N]) const {
        to_floats(as_vector<T, N>(loaded), values);
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
// Blocks of quantize_whole_groups that a multiprocessor has registers for: enough loads in flight.
inline constexpr int kGroupBlocks = 4;

// The same with a scale for each group of columns, which one lane or neighbouring ones hold: every vector is loaded once.
// The tiles reach over the padding of the scales, whose groups have no elements. All threads of the block call this.
// `tensor`: the scale over those of the groups.
template <class Source>
__device__ __forceinline__ void quantize_groups(const GroupedRows& out, const RowTiles& tiles,
                                                const Source& source, float tensor) {
    constexpr int N = kGroupWidth;
    const int columns = group_columns(out.groups.dtype);
    for_each_tile_together<N>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t padded) {
        const std::int64_t dim = row < out.groups.rows ? out.dim : 0;
        typename Source::template Batch<1> batch;
        source.load(batch, row, dim, column, N);
        float values[N];
        source.values(batch, 0, column, values);
        const unsigned scale = store_group_codes(out, row * out.stride + column, left<N>(dim, column), values,
                                                 columns / N, tensor);
        if (column < padded && column % columns == 0)
            store_scale(out.groups, out.groups.at(row, column / columns), scale);
    });
}

// The same where whole_groups says so, of vectors that are `source.load(at)`: the format is chosen once, and each vector is
// loaded while the one before it is stored. A thread beyond the row's end loads the last vector of its group once more,
// which leaves the maximum as it is; one beyond the last row loads of that.
template <class Source>
__device__ __forceinline__ void quantize_whole_groups(const GroupedRows& out, const RowTiles& tiles,
                                                      const Source& source, float tensor) {
    constexpr int N = kGroupWidth;
    const unsigned lanes = 1u << tiles.lanes_log2, tall = blockDim.x >> tiles.lanes_log2,
                   step = gridDim.z * gridDim.y * tall;
    const auto rows = static_cast<unsigned>(out.groups.rows), vectors = static_cast<unsigned>(out.dim / N),
               padded_rows = static_cast<unsigned>(tiles.rows);
    const auto quantize_columns = [&](const GroupedRows& known, unsigned vector) {
        const unsigned shared = group_columns(known.groups.dtype) / N;  // lanes that have one group
        const bool stores_scale = vector % shared == 0 && vector < tiles.vectors;
        const std::int64_t scales = opaque(known.groups.at(0, vector / shared));
        const unsigned row_bytes = known.dtype == DType::fp4_e2m1 ? out.stride / 2 : out.stride,
                       vector_bytes = known.dtype == DType::fp4_e2m1 ? N / 2 : N;
        char* const column = static_cast<char*>(known.data) + std::uint64_t{vector} * vector_bytes;
        const auto load = [&](unsigned row) {
            return source.load(WholeVector{min(row, rows - 1), min(vector, vectors - 1)});
        };
        unsigned top = (blockIdx.z * gridDim.y + blockIdx.y) * tall,
                 row = top + (threadIdx.x >> tiles.lanes_log2);
        if (top >= padded_rows) return;
#pragma unroll 1
        for (auto loaded = load(row); top < padded_rows; row += step) {
            const bool there = row < rows && vector < vectors;
            float values[N];
            source.values(loaded, values);
            top += step;
            if (top < padded_rows) loaded = load(row + step);
            GroupedRows to = known;
            to.data = column + std::uint64_t{row} * row_bytes;
            const unsigned scale = store_group_codes(to, 0, there ? N : 0, values, shared, tensor);
            if (stores_scale && row < padded_rows)
                store_scale(known.groups, scales + known.groups.at(row, 0), scale);
        }
    };
    with_known_format(out, [&](const GroupedRows& known) {
        for (unsigned begin = blockIdx.x * lanes; begin < tiles.vectors; begin += gridDim.x * lanes)
            quantize_columns(known, begin + (threadIdx.x & (lanes - 1)));
    });
}

// Host: tiles for both, over `scales` and their padding. On a large tensor a thread has several vectors: there are two
// rounds of kGroupBlocks.
inline RowTiles tile_groups(const GroupScales& scales, const DeviceInfo& device) {
    const int columns = group_columns(scales.dtype);
    return tile_rows(scales.padded_rows, scales.padded_groups * columns, kGroupWidth, 1, device,
                     std::int64_t{2} * kGroupBlocks * device.sms, columns / kGroupWidth);
}

// Host: whether out has a format that quantize_whole_groups knows, and all vectors of it and of its operands are whole.
inline bool whole_groups(const GroupedRows& out, std::initializer_list<VectorRows> operands,
                         const DeviceInfo& device) {
    return has_known_format(out) && out.stride >> 31 == 0 &&
           whole_vectors(tile_rows(out.groups.padded_rows, out.dim, kGroupWidth, 1, device), kGroupWidth,
                         operands);
}

}  // namespace weft::inline WEFT_TARGET::kit
