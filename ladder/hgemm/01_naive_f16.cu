// A product of matrices of halves, a thread an element.
//
// Idea        As sgemm's first rung, with a sum in fp32: the products of two halves are exact there. Collections sum
//             in halves, which ladder/reduce shows to be wrong.
// Change      The first rung.
// Prediction  Bound by L1, as sgemm's; the conversions come on top.
#include "ladder/sgemm/product.h"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr int kTile = 16;

__global__ void gemm(const __half* a, const __half* b, __half* c, Sizes s) {
    const std::int64_t row = blockIdx.x / s.across * kTile + threadIdx.y;
    const std::int64_t column = blockIdx.x % s.across * kTile + threadIdx.x;
    if (row >= s.m || column >= s.n) return;
    float sum = 0.0f;
    for (std::int64_t k = 0; k < s.k; ++k)
        sum = fmaf(__half2float(a[row * s.k + k]), __half2float(b[k * s.n + column]), sum);
    c[row * s.n + column] = __float2half_rn(sum);
}

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_product(op, DType::fp16, DType::fp16); },
    +[](const Gemm& op, Context& context) {
        launch_product(kRung.name(), gemm, 16, 16, dim3(16, 16), op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
