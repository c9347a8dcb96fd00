// RMSNorm with a sum in half precision, eight elements a load: wrong on purpose.
//
// Idea        Pairs of halves are squared and added by one instruction each. Eight squares are added before they meet the
//             thread's sum, which loses a little less than 05, and is infinite at the same size.
// Change      05 with vectors of eight for the sum.
// Prediction  As fast as 04, whose sum in fp32 is right.
// Right       rms_norm x=fp16[4,1] weight=fp16[1] out=fp16[4,1]
// Wrong       rms_norm x=fp16[1,4096] weight=fp16[4096] out=fp16[1,4096] --values wide
#include "ladder/rms_norm/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void rms_norm(const __half* x, const __half* weight, __half* out, std::int64_t dim, float eps) {
    x += blockIdx.x * dim;
    out += blockIdx.x * dim;
    __half squares = __float2half_rn(0.0f);
    for_row<8>(
        x, dim,
        [&](const __half* vector) {
            const auto pack = *reinterpret_cast<const Pack<__half2, 4>*>(vector);
            __half2 pairs = __hmul2(pack.at[0], pack.at[0]);
#pragma unroll
            for (int k = 1; k < 4; ++k) pairs = __hadd2(pairs, __hmul2(pack.at[k], pack.at[k]));
            squares = __hadd(squares, __hadd(__low2half(pairs), __high2half(pairs)));
        },
        [&](std::int64_t i) { squares = __hadd(squares, __hmul(x[i], x[i])); });
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
