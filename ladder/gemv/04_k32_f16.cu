// A matrix of halves times a vector, a warp a row.
//
// Idea        Products of halves are exact in fp32, which is what they are summed in (collections sum in halves:
//             ladder/reduce shows what that costs).
// Change      01 with elements of 2 bytes.
// Prediction  As many loads as 01, for half the bytes.
#include "ladder/gemv/vector.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void gemv(const __half* x, const __half* matrix, __half* out, std::int64_t rows, std::int64_t k) {
    const std::int64_t row = thread_in_grid() / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (row >= rows) return;  // a whole warp: its lanes have one row
    float sum = 0.0f;
    for (std::int64_t i = lane; i < k; i += 32)
        sum = fmaf(__half2float(matrix[row * k + i]), __half2float(x[i]), sum);
    sum = warp_all(sum, Plus{});
    if (lane == 0) out[row] = __float2half_rn(sum);
}

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_gemv(op, DType::fp16, 1); },
    +[](const Gemm& op, Context& context) { launch_gemv(kRung.name(), gemv, 32, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
