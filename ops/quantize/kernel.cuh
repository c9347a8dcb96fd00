// quantize's kernels.
#pragma once

#include "kit/amax.cuh"
#include "kit/row_quantize.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kWidth = 8;  // elements of a vector: 16 bytes of a 16-bit input
inline constexpr int kBatch = 4;  // vectors a thread has in flight where a maximum is found

// The elements of a row for kit::quantize_rows.
template <class T>
struct QuantizeIn {
    kit::VectorRows x;

    template <int kCount>
    struct Batch {
        kit::Vec<T, kWidth> x[kCount];
    };
    template <int kCount>
    __device__ __forceinline__ void load(Batch<kCount>& batch, std::int64_t row, std::int64_t dim,
                                         std::int64_t column, std::int64_t step) const {
        kit::load_batch(batch.x, static_cast<const T*>(x.data) + row * x.stride, dim, column, step,
                        x.aligned);
    }
    template <int kCount>
    __device__ __forceinline__ void values(const Batch<kCount>& batch, int b, float (&values)[kWidth]) const {
        kit::to_floats(batch.x[b], values);
    }
};

// What the first of two passes leaves to the second.
struct Found {
    const float* amaxes;  // one of each block
    int amax_count;
    float* tensor_scale;
};

// What     amaxes[block] = max |x| of the block's share
// Mapping  a thread owns batches of 4 vectors of a row (kit/elementwise.cuh), blocks loop over the tensor
// Traffic  x once: bound by memory
// Needs    as many amaxes as blocks
template <class T>
__global__ void __launch_bounds__(256) quantize_amax(QuantizeIn<T> in, kit::RowTiles tiles, float* amaxes) {
    kit::dependency_wait();
    kit::dependents_launch();
    const float amax = kit::block_amax<T, kWidth>(static_cast<const T*>(in.x.data), in.x.stride, in.x.aligned,
                                                  tiles, kit::Max{});
    if (threadIdx.x == 0) amaxes[blockIdx.y * gridDim.x + blockIdx.x] = amax;
}

// What     out = saturate(x · (1/scale)), the scale given (null: 1)
// Mapping  a thread owns one vector of 8 elements of a row (kit/elementwise.cuh)
// Traffic  x once, out once: bound by memory, and by the launch where x is small
// Needs    nothing of out overlaps x
template <class T, class Out>
__global__ void __launch_bounds__(256)
    quantize(kit::VectorRows in, kit::VectorRows out, const float* given, kit::RowTiles tiles) {
    kit::for_each_vector<kWidth, Out>(tiles, out.dtype, [&](auto* type, const auto& at) {
        // The scale is asked for first: it is divided by while the vector is under way.
        const float scale = given != nullptr ? *given : 1.0f;
        const auto x = kit::load<T, kWidth>(in, at);
        const float inverse = 1.0f / scale;
        float values[kWidth];
        kit::to_floats(x, values);
#pragma unroll
        for (float& value : values) value *= inverse;
        kit::store<std::remove_pointer_t<decltype(type)>>(out, at, values);
    });
}

// What     tensor_scale = max of amaxes / max; out = saturate(x · (1/tensor_scale))
// Mapping  a thread owns batches of 4 vectors of a row; every block reduces the few amaxes for itself
// Traffic  x once (from L2 where the pass before left it there), out once: bound by memory
// Needs    amaxes come from a kernel before this one
template <class T>
__global__ void __launch_bounds__(256)
    quantize_found(QuantizeIn<T> in, kit::VectorRows out, Found found, kit::RowTiles tiles) {
    kit::dependency_wait();
    kit::dependents_launch();
    float amax = 0.0f;
    for (int i = static_cast<int>(threadIdx.x); i < found.amax_count; i += static_cast<int>(blockDim.x)) {
        amax = fmaxf(amax, found.amaxes[i]);
    }
    kit::BlockGroup group{.lanes = static_cast<int>(blockDim.x)};
    const float scale = kit::dynamic_scale(group.max(amax), out.dtype), inverse = 1.0f / scale;
    if (blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0 && threadIdx.x == 0)
        *found.tensor_scale = scale;
    kit::for_each_tile<kWidth, kBatch>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t step) {
        typename QuantizeIn<T>::template Batch<kBatch> batch;
        in.load(batch, row, tiles.dim, column, step);
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            const std::int64_t at = column + b * step;
            float values[kWidth];
            in.values(batch, b, values);
#pragma unroll
            for (float& value : values) value *= inverse;
            kit::store_floats(out.dtype, out.data, row * out.stride + at, values,
                              kit::left<kWidth>(tiles.dim, at), out.aligned);
        }
    });
}

// What     scale[row] = amax(x[row]) / max; out = saturate(x · (1/scale[row]))
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

}  // namespace
}  // namespace weft::inline WEFT_TARGET
