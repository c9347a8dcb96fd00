// LayerNorm, four elements a load.
//
// Idea        Vectors of four in all three passes, whose ways through the row are written once.
// Change      Vectors of four for x and out.
// Prediction  Nearer to the card's bandwidth.
#include "ladder/layer_norm/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void layer_norm(LayerNormRow<float> row) {
    const float* x = row.x + blockIdx.x * row.dim;
    float* out = row.out + blockIdx.x * row.dim;
    const auto dim = static_cast<float>(row.dim);
    float sum = 0.0f, squares = 0.0f;
    // `use` gets every element as fp32.
    const auto for_all = [&](auto use) {
        for_row<4>(
            x, row.dim,
            [&](const float* vector) {
                const auto pack = *reinterpret_cast<const Pack<float, 4>*>(vector);
#pragma unroll
                for (const float one : pack.at) use(static_cast<float>(one));
            },
            [&](std::int64_t i) { use(static_cast<float>(x[i])); });
    };
    for_all([&](float v) { sum += v; });
    const float mean = block_sum(sum) / dim;
    for_all([&](float v) { squares = fmaf(v - mean, v - mean, squares); });
    const float scale = 1.0f / sqrtf(block_sum(squares) / dim + row.eps);
    const auto one_of = [&](std::int64_t i, float v) {
        const float n = (static_cast<float>(v) - mean) * scale;
        return static_cast<float>(
            fmaf(n, static_cast<float>(row.weight[i]), static_cast<float>(row.bias[i])));
    };
    for_row<4>(
        x, row.dim,
        [&](const float* vector) {
            const std::int64_t first = vector - x;
            auto pack = *reinterpret_cast<const Pack<float, 4>*>(vector);
#pragma unroll
            for (int k = 0; k < 4; ++k) pack.at[k] = one_of(first + k, pack.at[k]);
            *reinterpret_cast<Pack<float, 4>*>(out + first) = pack;
        },
        [&](std::int64_t i) { out[i] = one_of(i, x[i]); });
}

const RegisterRung<LayerNorm> kRung{
    +[](const LayerNorm& op, const DeviceInfo&) { return decline_layer_norm(op, DType::fp32); },
    +[](const LayerNorm& op, Context& context) { launch_layer_norm(kRung.name(), layer_norm, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
