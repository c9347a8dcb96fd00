// A matrix of halves times a vector, two rows a warp.
//
// Idea        As 03.
// Change      Groups of 16 lanes.
// Prediction  Twice 04's speed at 16 columns.
#include "ladder/gemv/vector.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void gemv(const __half* x, const __half* matrix, __half* out, std::int64_t rows, std::int64_t k) {
    const std::int64_t row = thread_in_grid() / 16;
    const int lane = static_cast<int>(threadIdx.x) % 16;
    float sum = 0.0f;
    if (row <
        rows) {  // no return: the warp's other row may be there, and all lanes must meet in the shuffles
        for (std::int64_t i = lane; i < k; i += 16)
            sum = fmaf(__half2float(matrix[row * k + i]), __half2float(x[i]), sum);
    }
#pragma unroll
    for (int mask = 8; mask > 0; mask >>= 1) sum += kit::shuffle_xor(sum, mask);
    if (lane == 0 && row < rows) out[row] = __float2half_rn(sum);
}

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_gemv(op, DType::fp16, 1); },
    +[](const Gemm& op, Context& context) { launch_gemv(kRung.name(), gemv, 16, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
