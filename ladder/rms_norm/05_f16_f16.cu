// RMSNorm with a sum in half precision: wrong on purpose.
//
// Idea        The sum of squares is a half, as in collections' f16_f16 forms (packed or not: the packing changes
//             nothing about it).
// Change      03 with an accumulator of 16 bits.
// Prediction  No faster; infinite from a sum of 65504 on, which a row of 4096 elements of size 4 reaches.
// Right       rms_norm x=fp16[4,1] weight=fp16[1] out=fp16[4,1]
// Wrong       rms_norm x=fp16[1,4096] weight=fp16[4096] out=fp16[1,4096] --values wide
#include "ladder/rms_norm/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void rms_norm(const __half* x, const __half* weight, __half* out, std::int64_t dim, float eps) {
    x += blockIdx.x * dim;
    out += blockIdx.x * dim;
    __half squares = __float2half_rn(0.0f);
    for (std::int64_t i = threadIdx.x; i < dim; i += kBlock) squares = __hadd(squares, __hmul(x[i], x[i]));
    const __half sum = __float2half_rn(block_sum(__half2float(squares)));
    const float scale = 1.0f / sqrtf(__half2float(sum) / static_cast<float>(dim) + eps);
    for (std::int64_t i = threadIdx.x; i < dim; i += kBlock)
        out[i] = __float2half_rn(__half2float(x[i]) * scale * __half2float(weight[i]));
}

const RegisterRung<RmsNorm> kRung{
    +[](const RmsNorm& op, const DeviceInfo&) { return decline_rms_norm(op, DType::fp16); },
    +[](const RmsNorm& op, Context& context) { launch_rms_norm(kRung.name(), rms_norm, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
