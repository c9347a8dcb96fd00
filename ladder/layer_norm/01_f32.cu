// LayerNorm, a block a row.
//
// Idea        Two numbers decide a row: the mean, then the mean square of what differs from it. One pass could find
//             both from sums of x and x², but where the mean is large their difference has no digits left.
// Change      The first rung.
// Prediction  Bound by memory; the second and third read of the row come from L1.
#include "ladder/layer_norm/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void layer_norm(LayerNormRow<float> row) {
    const float* x = row.x + blockIdx.x * row.dim;
    float* out = row.out + blockIdx.x * row.dim;
    const auto dim = static_cast<float>(row.dim);
    float sum = 0.0f, squares = 0.0f;
    for (std::int64_t i = threadIdx.x; i < row.dim; i += kBlock) sum += x[i];
    const float mean = block_sum(sum) / dim;
    for (std::int64_t i = threadIdx.x; i < row.dim; i += kBlock) {
        const float d = x[i] - mean;
        squares = fmaf(d, d, squares);
    }
    const float scale = 1.0f / sqrtf(block_sum(squares) / dim + row.eps);
    for (std::int64_t i = threadIdx.x; i < row.dim; i += kBlock) {
        const float n = (x[i] - mean) * scale;
        out[i] = static_cast<float>(fmaf(n, row.weight[i], row.bias[i]));
    }
}

const RegisterRung<LayerNorm> kRung{
    +[](const LayerNorm& op, const DeviceInfo&) { return decline_layer_norm(op, DType::fp32); },
    +[](const LayerNorm& op, Context& context) { launch_layer_norm(kRung.name(), layer_norm, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
