// LayerNorm with sums in half precision, eight elements a load: wrong on purpose.
//
// Idea        A thread adds pairs of halves, which is one instruction for two sums. Fewer additions one after the other
//             lose a little less, and a row of some thousand elements is lost all the same.
// Change      05 with vectors of eight for both sums.
// Prediction  As fast as 04, whose sums in fp32 are right: the conversions that it saves were not the bound.
// Right       layer_norm x=fp16[4,1] weight=fp16[1] bias=fp16[1] out=fp16[4,1]
// Wrong       layer_norm x=fp16[2,3001] weight=fp16[3001] bias=fp16[3001] out=fp16[2,3001]
#include "ladder/layer_norm/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

// The block's sum of what `term` makes of each element, in halves until the threads meet.
template <class Term>
__device__ float sum_of_halves(const __half* x, std::int64_t dim, Term term) {
    __half sum = __float2half_rn(0.0f);
    for_row<8>(
        x, dim,
        [&](const __half* vector) {
            const auto pack = *reinterpret_cast<const Pack<__half2, 4>*>(vector);
            __half2 pairs = term(pack.at[0]);
#pragma unroll
            for (int k = 1; k < 4; ++k) pairs = __hadd2(pairs, term(pack.at[k]));
            sum = __hadd(sum, __hadd(__low2half(pairs), __high2half(pairs)));
        },
        [&](std::int64_t i) { sum = __hadd(sum, __low2half(term(__half2half2(x[i])))); });
    return block_sum(__half2float(sum));
}

__global__ void layer_norm(LayerNormRow<__half> row) {
    const __half* x = row.x + blockIdx.x * row.dim;
    __half* out = row.out + blockIdx.x * row.dim;
    const auto dim = static_cast<float>(row.dim);
    const __half mean = __float2half_rn(sum_of_halves(x, row.dim, [](__half2 v) { return v; }) / dim);
    const float squares = sum_of_halves(x, row.dim, [&](__half2 v) {
        const __half2 d = __hsub2(v, __half2half2(mean));
        return __hmul2(d, d);
    });
    const float scale = 1.0f / sqrtf(squares / dim + row.eps);
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
