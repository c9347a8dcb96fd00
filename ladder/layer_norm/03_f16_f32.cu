// LayerNorm of halves, in fp32.
//
// Idea        Elements are halves; mean, differences and their squares are fp32.
// Change      01 with elements of 2 bytes.
// Prediction  As many loads as 01, for half the bytes.
#include "ladder/layer_norm/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void layer_norm(LayerNormRow<__half> row) {
    const __half* x = row.x + blockIdx.x * row.dim;
    __half* out = row.out + blockIdx.x * row.dim;
    const auto dim = static_cast<float>(row.dim);
    float sum = 0.0f, squares = 0.0f;
    for (std::int64_t i = threadIdx.x; i < row.dim; i += kBlock) sum += static_cast<float>(x[i]);
    const float mean = block_sum(sum) / dim;
    for (std::int64_t i = threadIdx.x; i < row.dim; i += kBlock) {
        const float d = static_cast<float>(x[i]) - mean;
        squares = fmaf(d, d, squares);
    }
    const float scale = 1.0f / sqrtf(block_sum(squares) / dim + row.eps);
    for (std::int64_t i = threadIdx.x; i < row.dim; i += kBlock) {
        const float n = (static_cast<float>(x[i]) - mean) * scale;
        out[i] =
            static_cast<__half>(fmaf(n, static_cast<float>(row.weight[i]), static_cast<float>(row.bias[i])));
    }
}

const RegisterRung<LayerNorm> kRung{
    +[](const LayerNorm& op, const DeviceInfo&) { return decline_layer_norm(op, DType::fp16); },
    +[](const LayerNorm& op, Context& context) { launch_layer_norm(kRung.name(), layer_norm, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
