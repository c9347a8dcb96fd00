// Softmax with the maximum subtracted, four elements a load.
//
// Idea        Vectors of four in all three passes. A lambda goes over the row, so that what is done with an element is
//             written once a pass.
// Change      Vectors of four.
// Prediction  Nearer to the bandwidth of where the row lies.
#include "ladder/softmax/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void softmax(const float* x, float* out, std::int64_t dim) {
    x += blockIdx.x * dim;
    out += blockIdx.x * dim;
    float max = -INFINITY, sum = 0.0f;
    // `use` gets every element as fp32, and where it is.
    const auto for_all = [&](auto use) {
        for_row<4>(
            x, dim,
            [&](const float* vector) {
                const auto pack = *reinterpret_cast<const Pack<float, 4>*>(vector);
#pragma unroll
                for (const float one : pack.at) use(static_cast<float>(one));
            },
            [&](std::int64_t i) { use(static_cast<float>(x[i])); });
    };
    for_all([&](float logit) { max = Larger{}(max, logit); });
    const float shift = shift_of(block_max(max));
    for_all([&](float logit) { sum += expf(logit - shift); });
    const float inverse = inverse_of(block_sum(sum));
    const auto weight = [&](float logit) { return static_cast<float>(expf(logit - shift) * inverse); };
    for_row<4>(
        x, dim,
        [&](const float* vector) {
            auto pack = *reinterpret_cast<const Pack<float, 4>*>(vector);
#pragma unroll
            for (float& one : pack.at) one = weight(static_cast<float>(one));
            *reinterpret_cast<Pack<float, 4>*>(out + (vector - x)) = pack;
        },
        [&](std::int64_t i) { out[i] = weight(static_cast<float>(x[i])); });
}

const RegisterRung<Softmax> kRung{
    +[](const Softmax& op, const DeviceInfo&) { return decline_softmax(op, DType::fp32); },
    +[](const Softmax& op, Context& context) { launch_softmax(kRung.name(), softmax, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
