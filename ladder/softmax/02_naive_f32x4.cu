// Softmax by its formula, four elements a load: wrong on purpose.
//
// Idea        A faster way to the same NaN: what a kernel computes is decided before how it loads.
// Change      Vectors of four in both passes.
// Prediction  Faster than 01, and as wrong.
// Right       softmax x=fp32[4,64] out=fp32[4,64] --values tiny
// Wrong       softmax x=fp32[4,64] out=fp32[4,64] --values wide
#include "ladder/softmax/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void softmax(const float* x, float* out, std::int64_t dim) {
    x += blockIdx.x * dim;
    out += blockIdx.x * dim;
    float sum = 0.0f;
    for_row<4>(
        x, dim,
        [&](const float* vector) {
            const float4 v = *reinterpret_cast<const float4*>(vector);
            sum += (expf(v.x) + expf(v.y)) + (expf(v.z) + expf(v.w));
        },
        [&](std::int64_t i) { sum += expf(x[i]); });
    const float inverse = 1.0f / block_sum(sum);
    for_row<4>(
        x, dim,
        [&](const float* vector) {
            const float4 v = *reinterpret_cast<const float4*>(vector);
            *reinterpret_cast<float4*>(out + (vector - x)) = make_float4(
                expf(v.x) * inverse, expf(v.y) * inverse, expf(v.z) * inverse, expf(v.w) * inverse);
        },
        [&](std::int64_t i) { out[i] = expf(x[i]) * inverse; });
}

const RegisterRung<Softmax> kRung{
    +[](const Softmax& op, const DeviceInfo&) { return decline_softmax(op, DType::fp32); },
    +[](const Softmax& op, Context& context) { launch_softmax(kRung.name(), softmax, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
