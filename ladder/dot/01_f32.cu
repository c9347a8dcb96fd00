// A dot product, an element a thread and step.
//
// Idea        A product is folded into the sum: fmaf multiplies and adds with one rounding. What is left is a
//             reduction.
// Change      The first rung; ladder/reduce is where its sum comes from.
// Prediction  Bound by memory: two loads for each fused multiply-add.
#include "ladder/dot/dot.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void dot(const float* x, const float* y, float* out, std::int64_t dim) {
    x += blockIdx.x * dim;
    y += blockIdx.x * dim;
    float part = 0.0f;
    for (std::int64_t i = threadIdx.x; i < dim; i += kBlock) part = fmaf(x[i], y[i], part);
    part = block_sum(part);
    if (threadIdx.x == 0) out[blockIdx.x] = part;
}

const RegisterRung<Reduce> kRung{
    +[](const Reduce& op, const DeviceInfo&) { return decline_sum(op, DType::fp32, DType::fp32, true); },
    +[](const Reduce& op, Context& context) { launch_dot<float>(kRung.name(), dot, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
