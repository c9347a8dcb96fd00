// LayerNorm with sums in half precision: wrong on purpose.
//
// Idea        Mean and variance are summed in halves, as in collections' f16_f16 forms (packed or not: the packing
//             changes nothing about it).
// Change      03 with accumulators of 16 bits.
// Prediction  No faster; the mean loses its digits as the row grows, and the variance overflows.
// Right       layer_norm x=fp16[4,1] weight=fp16[1] bias=fp16[1] out=fp16[4,1]
// Wrong       layer_norm x=fp16[2,3001] weight=fp16[3001] bias=fp16[3001] out=fp16[2,3001]
#include "ladder/layer_norm/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void layer_norm(LayerNormRow<__half> row) {
    const __half* x = row.x + blockIdx.x * row.dim;
    __half* out = row.out + blockIdx.x * row.dim;
    const auto dim = static_cast<float>(row.dim);
    __half sum = __float2half_rn(0.0f), squares = sum;
    for (std::int64_t i = threadIdx.x; i < row.dim; i += kBlock) sum = __hadd(sum, x[i]);
    const __half mean = __float2half_rn(block_sum(__half2float(sum)) / dim);
    for (std::int64_t i = threadIdx.x; i < row.dim; i += kBlock) {
        const __half d = __hsub(x[i], mean);
        squares = __hadd(squares, __hmul(d, d));
    }
    const float scale = 1.0f / sqrtf(block_sum(__half2float(squares)) / dim + row.eps);
    for (std::int64_t i = threadIdx.x; i < row.dim; i += kBlock) {
        const float n = __half2float(__hsub(x[i], mean)) * scale;
        out[i] = __float2half_rn(fmaf(n, __half2float(row.weight[i]), __half2float(row.bias[i])));
    }
}

const RegisterRung<LayerNorm> kRung{
    +[](const LayerNorm& op, const DeviceInfo&) { return decline_layer_norm(op, DType::fp16); },
    +[](const LayerNorm& op, Context& context) { launch_layer_norm(kRung.name(), layer_norm, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
