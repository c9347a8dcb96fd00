// timestep_embedding's kernel.
#pragma once

#include "kit/convert.cuh"
#include "kit/ptx/pdl.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kThreads = 128;

struct EmbeddingParams {
    const void* t;
    void* out;
    std::int64_t t_stride, out_stride, batch, half;
    DType t_dtype, out_dtype;
    float scale, negative_log, reciprocal;  // −ln(max_period), 1 / (half − downscale)
    bool cos_first, odd;
    int rows;  // of a thread
};

__device__ __forceinline__ float load_number(const EmbeddingParams& p, std::int64_t row) {
    const std::int64_t at = row * p.t_stride;
    if (p.t_dtype == DType::int32) return static_cast<float>(static_cast<const int*>(p.t)[at]);
    if (p.t_dtype == DType::int64) return static_cast<float>(static_cast<const long long*>(p.t)[at]);
    return kit::load_as(p.t_dtype, p.t, at);
}

// What     out[row] = [sin θ, cos θ] of one wavelength a column, every operation rounded as PyTorch's are
// Mapping  a thread owns a wavelength of 4 rows, or of one where rows are few
// Traffic  out once; about 60 instructions for two elements: bound by memory in fp32, by arithmetic in 16 bits
// Needs    nothing of alignment: neighbours store neighbouring elements
__global__ void __launch_bounds__(kThreads) timestep_embedding(EmbeddingParams p) {
    kit::dependency_wait();
    kit::dependents_launch();
    const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x,
                       first = std::int64_t{blockIdx.y} * p.rows;
    const std::int64_t last = first + p.rows < p.batch ? first + p.rows : p.batch;
    if (p.odd && i == p.half) {
        for (std::int64_t row = first; row < last; ++row)
            kit::store_as(p.out_dtype, p.out, row * p.out_stride + 2 * p.half, 0.0f);
    }
    if (i >= p.half) return;
    const float exponent = __fmul_rn(__fmul_rn(p.negative_log, static_cast<float>(i)), p.reciprocal);
    const float frequency = expf(exponent);
    for (std::int64_t row = first; row < last; ++row) {
        const float angle = __fmul_rn(p.scale, __fmul_rn(load_number(p, row), frequency));
        float sine, cosine;
        sincosf(angle, &sine, &cosine);
        const std::int64_t to = row * p.out_stride + i;
        kit::store_as(p.out_dtype, p.out, to, p.cos_first ? cosine : sine);
        kit::store_as(p.out_dtype, p.out, to + p.half, p.cos_first ? sine : cosine);
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
