// residual_add's kernel.
#pragma once

#include "kit/elementwise.cuh"
#include "kit/ptx/pdl.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kWidth = 8;  // elements of a vector: 16 bytes of a 16-bit input
inline constexpr int kBatch = 2;  // vectors of each input that a thread has in flight

// One operand: an array of rows in any of the floating dtypes.
struct Rows16Or32 {
    const void* data;  // null: absent
    DType dtype;
    std::int64_t stride;
    bool aligned;
};

struct SumParams {
    Rows16Or32 x, residual, bias;  // the bias has stride 0
    void* out;
    DType out_dtype;
    std::int64_t out_stride;
    bool out_aligned;
};

// Elements [0, count) at `column` of a row, widened.
__device__ __forceinline__ void load_row(const Rows16Or32& in, std::int64_t row, std::int64_t column,
                                         int count, float (&values)[kWidth]) {
    kit::with_type(in.dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        const T* from = static_cast<const T*>(in.data) + row * in.stride + column;
        kit::to_floats(kit::load_vector<kWidth>(from, count, in.aligned), values);
    });
}

// What     out = (x + bias) + residual, one fp32 rounding a sum, one to out's dtype
// Mapping  a thread owns kBatch vectors of 8 elements of a row, `lanes` vectors apart (kit/elementwise.cuh)
// Traffic  x, residual and out once: bound by memory; the bias stays in L1
// Needs    out may be x's or residual's memory: a thread reads its batch before it writes it
__global__ void __launch_bounds__(256) residual_add(SumParams p, kit::RowTiles tiles) {
    kit::dependency_wait();
    kit::dependents_launch();
    kit::for_each_tile<kWidth, kBatch>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t step) {
        float sum[kBatch][kWidth], residual[kBatch][kWidth];
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            const std::int64_t at = column + b * step;
            const int count = kit::left<kWidth>(tiles.dim, at);
            load_row(p.x, row, at, count, sum[b]);
            load_row(p.residual, row, at, count, residual[b]);
        }
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            const std::int64_t at = column + b * step;
            const int count = kit::left<kWidth>(tiles.dim, at);
            if (p.bias.data != nullptr) {
                float bias[kWidth];
                load_row(p.bias, 0, at, count, bias);
#pragma unroll
                for (int i = 0; i < kWidth; ++i) sum[b][i] += bias[i];
            }
#pragma unroll
            for (int i = 0; i < kWidth; ++i) sum[b][i] += residual[b][i];
            kit::store_floats(p.out_dtype, p.out, row * p.out_stride + at, sum[b], count, p.out_aligned);
        }
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
