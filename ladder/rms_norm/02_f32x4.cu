// RMSNorm, four elements a load.
//
// Idea        Rows of odd length start anywhere: for_row (row.cuh) finds the whole vectors in them. The weight, which
//             every row reads, starts elsewhere and stays in L1: it is read by elements.
// Change      Vectors of four for x and out.
// Prediction  Nearer to the card's bandwidth.
#include "ladder/rms_norm/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void rms_norm(const float* x, const float* weight, float* out, std::int64_t dim, float eps) {
    x += blockIdx.x * dim;
    out += blockIdx.x * dim;
    float squares = 0.0f;
    for_row<4>(
        x, dim,
        [&](const float* vector) {
            const auto pack = *reinterpret_cast<const Pack<float, 4>*>(vector);
#pragma unroll
            for (const float one : pack.at)
                squares = fmaf(static_cast<float>(one), static_cast<float>(one), squares);
        },
        [&](std::int64_t i) { squares = fmaf(static_cast<float>(x[i]), static_cast<float>(x[i]), squares); });
    const float scale = 1.0f / sqrtf(block_sum(squares) / static_cast<float>(dim) + eps);
    const auto one_of = [&](std::int64_t i, float v) {
        return static_cast<float>(static_cast<float>(v) * scale * static_cast<float>(weight[i]));
    };
    for_row<4>(
        x, dim,
        [&](const float* vector) {
            const std::int64_t first = vector - x;
            auto pack = *reinterpret_cast<const Pack<float, 4>*>(vector);
#pragma unroll
            for (int k = 0; k < 4; ++k) pack.at[k] = one_of(first + k, pack.at[k]);
            *reinterpret_cast<Pack<float, 4>*>(out + first) = pack;
        },
        [&](std::int64_t i) { out[i] = one_of(i, x[i]); });
}

const RegisterRung<RmsNorm> kRung{
    +[](const RmsNorm& op, const DeviceInfo&) { return decline_rms_norm(op, DType::fp32); },
    +[](const RmsNorm& op, Context& context) { launch_rms_norm(kRung.name(), rms_norm, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
