// quantize's kernels.
#pragma once

#include "kit/amax.cuh"
#include "kit/ptx/pdl.cuh"
#include "kit/row_quantize.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kWidth = 8;
inline constexpr int kBatch = 4;

template <class T>
struct QuantizeIn {
    const T* x;
    std::int64_t stride;
    bool aligned;

    template <int kCount>
    struct Batch {
        kit::Vec<T, kWidth> x[kCount];
    };
    template <int kCount>
    __device__ __forceinline__ void load(Batch<kCount>& batch, std::int64_t row, std::int64_t dim,
                                         std::int64_t column, std::int64_t step) const {
        kit::load_batch(batch.x, x + row * stride, dim, column, step, aligned);
    }
    template <int kCount>
    __device__ __forceinline__ void values(const Batch<kCount>& batch, int b, float (&values)[kWidth]) const {
        kit::to_floats(batch.x[b], values);
    }
};

struct QuantizeOut {
    void* data;
    std::int64_t stride;
    DType dtype;
    bool aligned;
    const float* scale;   // given; null: 1, or found
    const float* amaxes;  // one of each block of the pass before; null where the scale is not to be found
    int amax_count;
    float* tensor_scale;  // found
};

// What     amaxes[block] = max |x| of the block's share
// Mapping  a thread owns batches of 4 vectors of a row (kit/elementwise.cuh), blocks loop over the tensor
// Traffic  x once: bound by memory
// Needs    as many amaxes as blocks
template <class T>
__global__ void __launch_bounds__(256) quantize_amax(QuantizeIn<T> in, kit::RowTiles tiles, float* amaxes) {
    kit::dependency_wait();
    kit::dependents_launch();
    const float amax = kit::block_amax<T, kWidth>(in.x, in.stride, in.aligned, tiles, kit::Max{});
    if (threadIdx.x == 0) amaxes[blockIdx.y * gridDim.x + blockIdx.x] = amax;
}

// What     out = saturate(x · (1/scale)), the scale given, 1, or that of the largest of `amaxes`
// Mapping  a thread owns batches of 4 vectors of a row; every block reduces the few amaxes for itself
// Traffic  x once (from L2 where the pass before left it there), out once: bound by memory
// Needs    amaxes, where given, come from a kernel before this one
template <class T>
__global__ void __launch_bounds__(256) quantize(QuantizeIn<T> in, QuantizeOut out, kit::RowTiles tiles) {
    kit::dependency_wait();
    kit::dependents_launch();
    float scale = out.scale != nullptr ? *out.scale : 1.0f;
    if (out.amaxes != nullptr) {
        float amax = 0.0f;
        for (int i = static_cast<int>(threadIdx.x); i < out.amax_count; i += static_cast<int>(blockDim.x)) {
            amax = fmaxf(amax, out.amaxes[i]);
        }
        kit::Group group{.lanes = static_cast<int>(blockDim.x)};
        scale = kit::dynamic_scale(group.max(amax), out.dtype);
        if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) *out.tensor_scale = scale;
    }
    const float inverse = 1.0f / scale;
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
