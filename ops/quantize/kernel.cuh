// quantize's kernels.
#pragma once

#include "kit/row_quantize.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kWidth = 8;        // elements of a vector: 16 bytes of a 16-bit input
inline constexpr int kBatch = 4;        // vectors a thread has in flight where a maximum is found
inline constexpr int kBlockSide = 128;  // rows and columns of a block that has one scale

template <class T, int N = kWidth>
using QuantizeIn = kit::PlainRows<T, N>;

// What the first of two passes leaves to the second.
struct Found {
    const float* amaxes;  // one of each block; null: nothing is found
    int amax_count;
    float* tensor_scale;
    float levels;  // the format's largest number

    // All threads of the block call this.
    __device__ __forceinline__ float scale() const {
        float amax = 0.0f;
        for (int i = static_cast<int>(threadIdx.x); i < amax_count; i += static_cast<int>(blockDim.x))
            amax = kit::MaxOrNan{}(amax, amaxes[i]);  // which have NaN only where it counts
        kit::BlockGroup group{.lanes = static_cast<int>(blockDim.x)};
        const float scale = kit::dynamic_scale(group.reduce(amax, kit::MaxOrNan{}), levels);
        if ((blockIdx.x | blockIdx.y | blockIdx.z | threadIdx.x) == 0) *tensor_scale = scale;
        return scale;
    }
};

// What     amaxes[block] = max |x · multiplier| of the block's share
// Mapping  a thread owns batches of 4 vectors of a row (kit/elementwise.cuh), blocks loop over the tensor
// Traffic  x once: bound by memory
// Needs    as many amaxes as blocks
template <class T>
__global__ void __launch_bounds__(256)
    quantize_amax(QuantizeIn<T> in, kit::RowTiles tiles, kit::AmaxOrNan largest, float* amaxes) {
    kit::dependency_wait();
    kit::dependents_launch();
    float amax = 0.0f;
    kit::for_each_tile<kWidth, kBatch>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t step) {
        typename QuantizeIn<T>::template Batch<kBatch> batch;
        in.load(batch, row, tiles.dim, column, step);
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            float values[kWidth];
            in.values(batch, b, column + b * step, values);
#pragma unroll
            for (const float value : values) amax = largest(amax, fabsf(value));
        }
    });
    kit::BlockGroup group{.lanes = static_cast<int>(blockDim.x)};
    amax = group.reduce(amax, largest);
    if (threadIdx.x == 0) amaxes[blockIdx.y * gridDim.x + blockIdx.x] = amax;
}

// What     out = saturate(x · multiplier · (1/scale)), the scale given (null: 1)
// Mapping  a thread owns one vector of 8 elements of a row (kit/elementwise.cuh)
// Traffic  x once, out once: bound by memory, and by the launch where x is small
// Needs    nothing of out overlaps x
template <class T, class Out>
__global__ void __launch_bounds__(256)
    quantize(QuantizeIn<T> in, kit::VectorRows out, const float* given, kit::RowTiles tiles) {
    kit::for_each_vector<kWidth, Out>(tiles, [&](const auto& at) {
        // The scale is asked for first: it is divided by while the vector is under way.
        const float scale = given != nullptr ? *given : 1.0f;
        const auto x = kit::load<T, kWidth>(in.x, at);
        const float inverse = 1.0f / scale;
        float values[kWidth];
        kit::to_floats(x, values);
        kit::scale_channels(in.multiplier, at, values);
#pragma unroll
        for (float& value : values) value *= inverse;
        kit::store_row<Out>(out, at, values);
    });
}

// What     tensor_scale = max of amaxes / max; out = saturate(x · multiplier · (1/tensor_scale))
// Mapping  a thread owns batches of 4 vectors of a row; every block reduces the few amaxes for itself
// Traffic  x once (from L2 where the pass before left it there), out once: bound by memory
// Needs    amaxes come from a kernel before this one
template <class T>
__global__ void __launch_bounds__(256)
    quantize_found(QuantizeIn<T> in, kit::VectorRows out, Found found, kit::RowTiles tiles) {
    kit::dependency_wait();
    kit::dependents_launch();
    const float inverse = 1.0f / found.scale();
    kit::for_each_tile<kWidth, kBatch>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t step) {
        typename QuantizeIn<T>::template Batch<kBatch> batch;
        in.load(batch, row, tiles.dim, column, step);
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            const std::int64_t at = column + b * step;
            float values[kWidth];
            in.values(batch, b, at, values);
#pragma unroll
            for (float& value : values) value *= inverse;
            kit::store_floats(out.dtype, out.data, row * out.stride + at, values,
                              kit::left<kWidth>(tiles.dim, at), out.aligned);
        }
    });
}

// What     scale[row] = amax(x[row] · multiplier) / max; out = saturate(x · multiplier · (1/scale[row]))
// Mapping  one block a row; a thread keeps up to 4 vectors in registers, longer rows are read twice
// Traffic  x once (twice beyond 16384 columns, then from L2), out once: bound by memory
// Needs    nothing of out overlaps x
template <class T>
__global__ void __launch_bounds__(kit::kMaxRowThreads, 1)
    quantize_token(QuantizeIn<T> in, kit::QuantizedRows rows) {
    kit::dependency_wait();
    kit::dependents_launch();
    kit::quantize_rows<kWidth>(rows, in);
}

// What     group_scale[row, g] of the largest |x · multiplier| in a group of columns; out = saturate(x · multiplier /
//          group_scale), over the tensor's scale where that is given or found
// Mapping  a thread owns 16 elements of a row: a group of NVFP4; 2 lanes have one of MX, 8 one of 128 columns
// Traffic  x once, out and scales once: bound by memory; about 14 instructions an element of NVFP4
// Needs    tile_groups; nothing of out overlaps x; whole_groups, and no multiplier, where kWhole
template <bool kWhole, class T>
__global__ void __launch_bounds__(256, kWhole ? kit::kGroupBlocks : 0)
    quantize_grouped(QuantizeIn<T, kit::kGroupWidth> in, kit::GroupedRows out, Found found,
                     kit::RowTiles tiles) {
    kit::dependency_wait();
    kit::dependents_launch();
    const float tensor = found.amaxes != nullptr ? found.scale() : out.scale != nullptr ? *out.scale : 1.0f;
    if constexpr (kWhole) {
        kit::quantize_whole_groups(out, tiles, in, tensor);
    } else {
        kit::quantize_groups(out, tiles, in, tensor);
    }
}

// Where the scales of blocks lie.
struct BlockScales {
    float* data;
    std::int64_t row_stride, column_stride;
};

// What     block_scale of the largest |x · multiplier| of 128 rows by 128 columns; out = saturate(x · multiplier /
//          block_scale)
// Mapping  256 threads a block of the tensor: 16 lanes hold a row of it, 8 vectors a thread, in registers in between
// Traffic  x once, out and scales once: bound by memory
// Needs    256 threads; nothing of out overlaps x
template <class T>
__global__ void __launch_bounds__(256)
    quantize_blocks(QuantizeIn<T> in, kit::VectorRows out, BlockScales scales, std::int64_t rows) {
    constexpr int kLanes = kBlockSide / kWidth, kRows = 256 / kLanes, kHeld = kBlockSide / kRows;
    kit::dependency_wait();
    kit::dependents_launch();
    const std::int64_t column = std::int64_t{blockIdx.x} * kBlockSide + threadIdx.x % kLanes * kWidth;
    kit::BlockGroup group{.lanes = 256};
    for (std::int64_t block = blockIdx.y; block * kBlockSide < rows; block += gridDim.y) {
        const std::int64_t first = block * kBlockSide + threadIdx.x / kLanes;
        const auto dim_of = [&](int i) { return first + i * kRows < rows ? in.dim : 0; };
        typename QuantizeIn<T>::template Batch<1> held[kHeld];
#pragma unroll
        for (int i = 0; i < kHeld; ++i) in.load(held[i], first + i * kRows, dim_of(i), column, kWidth);
        float amax = 0.0f, values[kWidth];
#pragma unroll
        for (int i = 0; i < kHeld; ++i) {
            in.values(held[i], 0, column, values);
            amax = fmaxf(amax, kit::amax_of(DType::fp8_e4m3, values));
        }
        const float scale = kit::dynamic_scale(group.max(amax), out.dtype), inverse = 1.0f / scale;
        if (threadIdx.x == 0)
            scales.data[block * scales.row_stride + blockIdx.x * scales.column_stride] = scale;
#pragma unroll
        for (int i = 0; i < kHeld; ++i) {
            in.values(held[i], 0, column, values);
#pragma unroll
            for (float& value : values) value *= inverse;
            kit::store_floats(out.dtype, out.data, (first + i * kRows) * out.stride + column, values,
                              kit::left<kWidth>(dim_of(i), column), out.aligned);
        }
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
