// Softmax in three passes over vectors of kWidth elements: what rungs share that differ in the vector alone.
#pragma once

#include "ladder/softmax/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

template <class T, int kWidth>
__global__ void softmax(const T* x, T* out, std::int64_t dim) {
    x += blockIdx.x * dim;
    out += blockIdx.x * dim;
    float max = -INFINITY, sum = 0.0f;
    // `use` gets every element as fp32, and where it is.
    const auto for_all = [&](auto use) {
        for_row<kWidth>(
            x, dim,
            [&](const T* vector) {
                const auto pack = *reinterpret_cast<const Pack<T, kWidth>*>(vector);
#pragma unroll
                for (const T one : pack.at) use(static_cast<float>(one));
            },
            [&](std::int64_t i) { use(static_cast<float>(x[i])); });
    };
    for_all([&](float logit) { max = Larger{}(max, logit); });
    const float shift = shift_of(block_max(max));
    for_all([&](float logit) { sum += expf(logit - shift); });
    const float inverse = inverse_of(block_sum(sum));
    const auto weight = [&](float logit) { return static_cast<T>(expf(logit - shift) * inverse); };
    for_row<kWidth>(
        x, dim,
        [&](const T* vector) {
            auto pack = *reinterpret_cast<const Pack<T, kWidth>*>(vector);
#pragma unroll
            for (T& one : pack.at) one = weight(static_cast<float>(one));
            *reinterpret_cast<Pack<T, kWidth>*>(out + (vector - x)) = pack;
        },
        [&](std::int64_t i) { out[i] = weight(static_cast<float>(x[i])); });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
