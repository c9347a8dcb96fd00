// A matrix times a vector, a warp a row.
//
// Idea        A row's products are a dot product: the lanes stride along the row, then five shuffles add their sums.
//             No shared memory, no barrier; the vector comes from L1 after the first row.
// Change      The first rung. Any row length; lanes beyond its end add nothing.
// Prediction  Bound by reading the matrix once.
#include "ladder/gemv/vector.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void gemv(const float* x, const float* matrix, float* out, std::int64_t rows, std::int64_t k) {
    const std::int64_t row = thread_in_grid() / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (row >= rows) return;  // a whole warp: its lanes have one row
    float sum = 0.0f;
    for (std::int64_t i = lane; i < k; i += 32) sum = fmaf(matrix[row * k + i], x[i], sum);
    sum = warp_all(sum, Plus{});
    if (lane == 0) out[row] = sum;
}

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_gemv(op, DType::fp32, 1); },
    +[](const Gemm& op, Context& context) { launch_gemv(kRung.name(), gemv, 32, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
