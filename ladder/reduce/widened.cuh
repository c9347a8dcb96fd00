// Sums in fp32 of what is stored in fewer bits, element by element or in vectors of 16 bytes. fp16, bf16 and both kinds
// of fp8 differ in T alone.
#pragma once

#include "ladder/reduce/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

template <class T>
__global__ void sum_elements(const T* x, float* out, std::int64_t dim) {
    const T* row = x + blockIdx.x * dim;
    float part = 0.0f;
    for (std::int64_t i = threadIdx.x; i < dim; i += kBlock) part += static_cast<float>(row[i]);
    part = block_sum(part);
    if (threadIdx.x == 0) out[blockIdx.x] = part;
}

template <class T>
__global__ void sum_vectors(const T* x, float* out, std::int64_t dim) {
    constexpr int kWidth = 16 / sizeof(T);
    const T* row = x + blockIdx.x * dim;
    float part = 0.0f;
    for_row<kWidth>(
        row, dim,
        [&](const T* vector) {
            const auto pack = *reinterpret_cast<const Pack<T, kWidth>*>(vector);
#pragma unroll
            for (const T one : pack.at) part += static_cast<float>(one);
        },
        [&](std::int64_t i) { part += static_cast<float>(row[i]); });
    part = block_sum(part);
    if (threadIdx.x == 0) out[blockIdx.x] = part;
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
