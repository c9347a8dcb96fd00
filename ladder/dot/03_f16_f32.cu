// A dot product of halves, in fp32.
//
// Idea        Products of halves are exact in fp32 (22 bits of 24): only the additions round.
// Change      01 with elements of 2 bytes.
// Prediction  A little more than half of 01's time.
#include "ladder/dot/dot.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void dot(const __half* x, const __half* y, float* out, std::int64_t dim) {
    x += blockIdx.x * dim;
    y += blockIdx.x * dim;
    float part = 0.0f;
    for (std::int64_t i = threadIdx.x; i < dim; i += kBlock)
        part = fmaf(__half2float(x[i]), __half2float(y[i]), part);
    part = block_sum(part);
    if (threadIdx.x == 0) out[blockIdx.x] = part;
}

const RegisterRung<Reduce> kRung{
    +[](const Reduce& op, const DeviceInfo&) { return decline_sum(op, DType::fp16, DType::fp32, true); },
    +[](const Reduce& op, Context& context) { launch_dot<__half>(kRung.name(), dot, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
