// dequantize's kernel.
#pragma once

#include "kit/elementwise.cuh"
#include "kit/ptx/pdl.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kWidth = 16;  // elements of a vector: 16 bytes of codes
inline constexpr int kBatch = 2;

template <class T>
struct Codes {
    const T* x;
    std::int64_t stride;
    bool aligned;
    const float *scale, *token_scale;  // null: 1
};

struct RealOut {
    void* data;
    std::int64_t stride;
    DType dtype;
    bool aligned;
};

// What     out = x · scale
// Mapping  a thread owns kBatch vectors of 16 codes of a row, `lanes` vectors apart (kit/elementwise.cuh)
// Traffic  the codes once, out once: bound by memory
// Needs    at most one of scale and token_scale
template <class T>
__global__ void __launch_bounds__(256) dequantize(Codes<T> in, RealOut out, kit::RowTiles tiles) {
    kit::dependency_wait();
    kit::dependents_launch();
    const float tensor_scale = in.scale != nullptr ? *in.scale : 1.0f;
    kit::for_each_tile<kWidth, kBatch>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t step) {
        const float scale = in.token_scale != nullptr ? in.token_scale[row] : tensor_scale;
        kit::Vec<T, kWidth> codes[kBatch];
        kit::load_batch(codes, in.x + row * in.stride, tiles.dim, column, step, in.aligned);
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            const std::int64_t at = column + b * step;
            float values[kWidth];
            kit::to_floats(codes[b], values);
#pragma unroll
            for (float& value : values) value *= scale;
            kit::store_floats(out.dtype, out.data, row * out.stride + at, values,
                              kit::left<kWidth>(tiles.dim, at), out.aligned);
        }
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
