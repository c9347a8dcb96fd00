// RMSNorm of halves, eight elements a load.
//
// Idea        One vector of 16 bytes for eight elements.
// Change      Vectors of eight.
// Prediction  The top rung; the library keeps the row in registers between its two uses.
#include "ladder/rms_norm/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void rms_norm(const __half* x, const __half* weight, __half* out, std::int64_t dim, float eps) {
    x += blockIdx.x * dim;
    out += blockIdx.x * dim;
    float squares = 0.0f;
    for_row<8>(
        x, dim,
        [&](const __half* vector) {
            const auto pack = *reinterpret_cast<const Pack<__half, 8>*>(vector);
#pragma unroll
            for (const __half one : pack.at)
                squares = fmaf(static_cast<float>(one), static_cast<float>(one), squares);
        },
        [&](std::int64_t i) { squares = fmaf(static_cast<float>(x[i]), static_cast<float>(x[i]), squares); });
    const float scale = 1.0f / sqrtf(block_sum(squares) / static_cast<float>(dim) + eps);
    const auto one_of = [&](std::int64_t i, __half v) {
        return static_cast<__half>(static_cast<float>(v) * scale * static_cast<float>(weight[i]));
    };
    for_row<8>(
        x, dim,
        [&](const __half* vector) {
            const std::int64_t first = vector - x;
            auto pack = *reinterpret_cast<const Pack<__half, 8>*>(vector);
#pragma unroll
            for (int k = 0; k < 8; ++k) pack.at[k] = one_of(first + k, pack.at[k]);
            *reinterpret_cast<Pack<__half, 8>*>(out + first) = pack;
        },
        [&](std::int64_t i) { out[i] = one_of(i, x[i]); });
}

const RegisterRung<RmsNorm> kRung{
    +[](const RmsNorm& op, const DeviceInfo&) { return decline_rms_norm(op, DType::fp16); },
    +[](const RmsNorm& op, Context& context) { launch_rms_norm(kRung.name(), rms_norm, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
