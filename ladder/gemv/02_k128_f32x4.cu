// A matrix times a vector, four elements a load.
//
// Idea        A warp takes 128 elements a step, 16 bytes a lane: loads are what a kernel without arithmetic is made
//             of.
// Change      Vectors of four.
// Prediction  Nearer to the card's bandwidth.
#include "ladder/gemv/vector.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void gemv(const float* x, const float* matrix, float* out, std::int64_t rows, std::int64_t k) {
    const std::int64_t row = thread_in_grid() / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (row >= rows) return;
    float sum = 0.0f;
    for (std::int64_t i = 4 * lane; i < k; i += 128) {
        const float4 a = *reinterpret_cast<const float4*>(matrix + row * k + i);
        const float4 b = *reinterpret_cast<const float4*>(x + i);
        sum = fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, fmaf(a.w, b.w, sum))));
    }
    sum = warp_all(sum, Plus{});
    if (lane == 0) out[row] = sum;
}

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_gemv(op, DType::fp32, 4); },
    +[](const Gemm& op, Context& context) { launch_gemv(kRung.name(), gemv, 32, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
