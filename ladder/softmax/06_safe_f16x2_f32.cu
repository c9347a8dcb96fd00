// Softmax of halves, two elements a load.
//
// Idea        Pairs, each a register of 32 bits.
// Change      Vectors of two.
// Prediction  Half as many loads as 05.
#include "ladder/softmax/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void softmax(const __half* x, __half* out, std::int64_t dim) {
    x += blockIdx.x * dim;
    out += blockIdx.x * dim;
    float max = -INFINITY, sum = 0.0f;
    // `use` gets every element as fp32, and where it is.
    const auto for_all = [&](auto use) {
        for_row<2>(
            x, dim,
            [&](const __half* vector) {
                const auto pack = *reinterpret_cast<const Pack<__half, 2>*>(vector);
#pragma unroll
                for (const __half one : pack.at) use(static_cast<float>(one));
            },
            [&](std::int64_t i) { use(static_cast<float>(x[i])); });
    };
    for_all([&](float logit) { max = Larger{}(max, logit); });
    const float shift = shift_of(block_max(max));
    for_all([&](float logit) { sum += expf(logit - shift); });
    const float inverse = inverse_of(block_sum(sum));
    const auto weight = [&](float logit) { return static_cast<__half>(expf(logit - shift) * inverse); };
    for_row<2>(
        x, dim,
        [&](const __half* vector) {
            auto pack = *reinterpret_cast<const Pack<__half, 2>*>(vector);
#pragma unroll
            for (__half& one : pack.at) one = weight(static_cast<float>(one));
            *reinterpret_cast<Pack<__half, 2>*>(out + (vector - x)) = pack;
        },
        [&](std::int64_t i) { out[i] = weight(static_cast<float>(x[i])); });
}

const RegisterRung<Softmax> kRung{
    +[](const Softmax& op, const DeviceInfo&) { return decline_softmax(op, DType::fp16); },
    +[](const Softmax& op, Context& context) { launch_softmax(kRung.name(), softmax, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
