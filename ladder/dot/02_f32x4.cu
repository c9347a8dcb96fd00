// A dot product, four elements a load.
//
// Idea        Both operands start at the same distance from a whole vector, because their rows are equally long:
//             for_row serves both.
// Change      Vectors of four.
// Prediction  Nearer to the card's bandwidth.
#include "ladder/dot/dot.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void dot(const float* x, const float* y, float* out, std::int64_t dim) {
    x += blockIdx.x * dim;
    y += blockIdx.x * dim;
    float part = 0.0f;
    for_row<4>(
        x, dim,
        [&](const float* vector) {
            const float4 a = *reinterpret_cast<const float4*>(vector);
            const float4 b = *reinterpret_cast<const float4*>(y + (vector - x));
            part = fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, fmaf(a.w, b.w, part))));
        },
        [&](std::int64_t i) { part = fmaf(x[i], y[i], part); });
    part = block_sum(part);
    if (threadIdx.x == 0) out[blockIdx.x] = part;
}

const RegisterRung<Reduce> kRung{
    +[](const Reduce& op, const DeviceInfo&) { return decline_sum(op, DType::fp32, DType::fp32, true); },
    +[](const Reduce& op, Context& context) { launch_dot<float>(kRung.name(), dot, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
