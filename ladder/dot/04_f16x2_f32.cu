// A dot product of halves, two a load.
//
// Idea        Pairs are widened together: __half22float2 gives both as floats.
// Change      Vectors of two.
// Prediction  Half as many loads as 03.
#include "ladder/dot/dot.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void dot(const __half* x, const __half* y, float* out, std::int64_t dim) {
    x += blockIdx.x * dim;
    y += blockIdx.x * dim;
    float part = 0.0f;
    for_row<2>(
        x, dim,
        [&](const __half* vector) {
            const float2 a = __half22float2(*reinterpret_cast<const __half2*>(vector));
            const float2 b = __half22float2(*reinterpret_cast<const __half2*>(y + (vector - x)));
            part = fmaf(a.x, b.x, fmaf(a.y, b.y, part));
        },
        [&](std::int64_t i) { part = fmaf(__half2float(x[i]), __half2float(y[i]), part); });
    part = block_sum(part);
    if (threadIdx.x == 0) out[blockIdx.x] = part;
}

const RegisterRung<Reduce> kRung{
    +[](const Reduce& op, const DeviceInfo&) { return decline_sum(op, DType::fp16, DType::fp32, true); },
    +[](const Reduce& op, Context& context) { launch_dot<__half>(kRung.name(), dot, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
