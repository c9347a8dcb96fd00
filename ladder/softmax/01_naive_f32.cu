// Softmax by its formula: wrong on purpose.
//
// Idea        e^x over the sum of e^x, as it is written down. Two passes: the sum, then the quotients.
// Change      The first rung.
// Prediction  The fewest passes, and infinite over infinite, which is NaN, as soon as one logit is above 88.7.
// Right       softmax x=fp32[4,64] out=fp32[4,64] --values tiny
// Wrong       softmax x=fp32[4,64] out=fp32[4,64] --values wide
#include "ladder/softmax/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void softmax(const float* x, float* out, std::int64_t dim) {
    x += blockIdx.x * dim;
    out += blockIdx.x * dim;
    float sum = 0.0f;
    for (std::int64_t i = threadIdx.x; i < dim; i += kBlock) sum += expf(x[i]);
    sum = block_sum(sum);
    for (std::int64_t i = threadIdx.x; i < dim; i += kBlock) out[i] = expf(x[i]) / sum;
}

const RegisterRung<Softmax> kRung{
    +[](const Softmax& op, const DeviceInfo&) { return decline_softmax(op, DType::fp32); },
    +[](const Softmax& op, Context& context) { launch_softmax(kRung.name(), softmax, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
