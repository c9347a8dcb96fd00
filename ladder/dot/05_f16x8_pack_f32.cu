// A dot product of halves, eight a load.
//
// Idea        One vector of 16 bytes of each operand, as four pairs.
// Change      Vectors of eight.
// Prediction  The top rung: bound by memory.
#include "ladder/dot/dot.h"

namespace weft::inline WEFT_TARGET {
namespace {

struct alignas(16) Pack {
    __half2 pair[4];
};

__global__ void dot(const __half* x, const __half* y, float* out, std::int64_t dim) {
    x += blockIdx.x * dim;
    y += blockIdx.x * dim;
    float part = 0.0f;
    for_row<8>(
        x, dim,
        [&](const __half* vector) {
            const Pack a = *reinterpret_cast<const Pack*>(vector);
            const Pack b = *reinterpret_cast<const Pack*>(y + (vector - x));
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const float2 p = __half22float2(a.pair[k]), q = __half22float2(b.pair[k]);
                part = fmaf(p.x, q.x, fmaf(p.y, q.y, part));
            }
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
