// A block finds the largest magnitude of a row, then writes the row as fp8 with the scale that follows.
#pragma once

#include "kit/elementwise.cuh"
#include "kit/reduce.cuh"

namespace weft::inline WEFT_TARGET::kit {

struct QuantizedRows {
    std::int64_t rows = 0, dim = 0;
    void* out = nullptr;
    DType out_dtype = DType::fp8_e4m3;
    std::int64_t out_stride = 0;
    bool out_aligned = false;
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

// `source.load(batch, row, dim, column, step)` loads a `Source::Batch<n>` of vectors, zeros beyond the row's
// end; `source.values(batch, b, values)` gives vector b in fp32. NaN has no magnitude, and stays NaN.
template <int kWidth, class Source>
__device__ __forceinline__ void quantize_rows(const QuantizedRows& q, const Source& source) {
    BlockGroup group{.lanes = static_cast<int>(blockDim.x)};
    const std::int64_t step = static_cast<std::int64_t>(blockDim.x) * kWidth, first = threadIdx.x * kWidth;
    const std::int64_t rest = first + kKeptVectors * step;
    for (std::int64_t row = blockIdx.x; row < q.rows; row += gridDim.x) {
        float kept[kKeptVectors][kWidth], more[kWidth], amax = 0.0f;
        {
            typename Source::template Batch<kKeptVectors> batch;
            source.load(batch, row, q.dim, first, step);
#pragma unroll
            for (int i = 0; i < kKeptVectors; ++i) {
                source.values(batch, i, kept[i]);
#pragma unroll
                for (float value : kept[i]) amax = fmaxf(amax, fabsf(value));
            }
        }
        for (std::int64_t column = rest; column < q.dim; column += step) {
            typename Source::template Batch<1> batch;
            source.load(batch, row, q.dim, column, step);
            source.values(batch, 0, more);
#pragma unroll
            for (float value : more) amax = fmaxf(amax, fabsf(value));
        }

        const float scale = dynamic_scale(group.max(amax), q.out_dtype), inverse = 1.0f / scale;
        if (threadIdx.x == 0) q.scale[row] = scale;

        const auto write = [&](std::int64_t column, float (&values)[kWidth]) {
#pragma unroll
            for (float& value : values) value *= inverse;
            store_floats(q.out_dtype, q.out, row * q.out_stride + column, values, left<kWidth>(q.dim, column),
                         q.out_aligned);
        };
#pragma unroll
        for (int i = 0; i < kKeptVectors; ++i) write(first + i * step, kept[i]);
        for (std::int64_t column = rest; column < q.dim; column += step) {
            typename Source::template Batch<1> batch;
            source.load(batch, row, q.dim, column, step);
            source.values(batch, 0, more);
            write(column, more);
        }
    }
}

}  // namespace weft::inline WEFT_TARGET::kit
