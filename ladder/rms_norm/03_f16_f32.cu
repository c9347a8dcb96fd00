// RMSNorm of halves, in fp32.
//
// Idea        The square of a half above 256 is infinite as a half: squares and their sum are fp32, and the result is
//             rounded once.
// Change      01 with elements of 2 bytes.
// Prediction  As many loads as 01, for half the bytes.
#include "ladder/rms_norm/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void rms_norm(const __half* x, const __half* weight, __half* out, std::int64_t dim, float eps) {
    x += blockIdx.x * dim;
    out += blockIdx.x * dim;
    float squares = 0.0f;
    for (std::int64_t i = threadIdx.x; i < dim; i += kBlock) {
        const float v = static_cast<float>(x[i]);
        squares = fmaf(v, v, squares);
    }
    const float scale = 1.0f / sqrtf(block_sum(squares) / static_cast<float>(dim) + eps);
    for (std::int64_t i = threadIdx.x; i < dim; i += kBlock)
        out[i] = static_cast<__half>(static_cast<float>(x[i]) * scale * static_cast<float>(weight[i]));
}

const RegisterRung<RmsNorm> kRung{
    +[](const RmsNorm& op, const DeviceInfo&) { return decline_rms_norm(op, DType::fp16); },
    +[](const RmsNorm& op, Context& context) { launch_rms_norm(kRung.name(), rms_norm, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
