// RMSNorm, a block a row.
//
// Idea        One number of a row decides all its elements: the sum of squares is found by the whole block
//             (block_sum.cuh), then the row is read once more and scaled. The weight is a vector, one factor a column;
//             collections have one number there.
// Change      The first rung.
// Prediction  Bound by memory: the second read of the row comes from L1.
#include "ladder/rms_norm/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void rms_norm(const float* x, const float* weight, float* out, std::int64_t dim, float eps) {
    x += blockIdx.x * dim;
    out += blockIdx.x * dim;
    float squares = 0.0f;
    for (std::int64_t i = threadIdx.x; i < dim; i += kBlock) {
        const float v = static_cast<float>(x[i]);
        squares = fmaf(v, v, squares);
    }
    const float scale = 1.0f / sqrtf(block_sum(squares) / static_cast<float>(dim) + eps);
    for (std::int64_t i = threadIdx.x; i < dim; i += kBlock)
        out[i] = static_cast<float>(static_cast<float>(x[i]) * scale * static_cast<float>(weight[i]));
}

const RegisterRung<RmsNorm> kRung{
    +[](const RmsNorm& op, const DeviceInfo&) { return decline_rms_norm(op, DType::fp32); },
    +[](const RmsNorm& op, Context& context) { launch_rms_norm(kRung.name(), rms_norm, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
