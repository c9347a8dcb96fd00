// A matrix times a vector, two rows a warp.
//
// Idea        Where a row has 16 elements, half of a warp would have nothing to do: each half takes a row of its own,
//             and four shuffles stay within it.
// Change      Groups of 16 lanes.
// Prediction  Twice 01's speed at 16 columns, and less than it where rows are long.
#include "ladder/gemv/vector.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void gemv(const float* x, const float* matrix, float* out, std::int64_t rows, std::int64_t k) {
    const std::int64_t row = thread_in_grid() / 16;
    const int lane = static_cast<int>(threadIdx.x) % 16;
    float sum = 0.0f;
    if (row <
        rows) {  // no return: the warp's other row may be there, and all lanes must meet in the shuffles
        for (std::int64_t i = lane; i < k; i += 16) sum = fmaf(matrix[row * k + i], x[i], sum);
    }
#pragma unroll
    for (int mask = 8; mask > 0; mask >>= 1) sum += kit::shuffle_xor(sum, mask);
    if (lane == 0 && row < rows) out[row] = sum;
}

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_gemv(op, DType::fp32, 1); },
    +[](const Gemm& op, Context& context) { launch_gemv(kRung.name(), gemv, 16, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
