// A product of matrices, a thread an element.
//
// Idea        Thread (row, column) walks along a row of A and a column of B. Neighbouring threads read neighbouring
//             elements of B and the same element of A: coalesced, and one broadcast.
// Change      The first rung.
// Prediction  Two loads for a multiplication: bound by L1, at a few percent of the card's arithmetic.
#include "ladder/sgemm/product.h"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr int kTile = 16;

__global__ void gemm(const float* a, const float* b, float* c, Sizes s) {
    const std::int64_t row = blockIdx.x / s.across * kTile + threadIdx.y;
    const std::int64_t column = blockIdx.x % s.across * kTile + threadIdx.x;
    if (row >= s.m || column >= s.n) return;
    float sum = 0.0f;
    for (std::int64_t k = 0; k < s.k; ++k) sum = fmaf(a[row * s.k + k], b[k * s.n + column], sum);
    c[row * s.n + column] = sum;
}

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_product(op, DType::fp32, DType::fp32); },
    +[](const Gemm& op, Context& context) {
        launch_product(kRung.name(), gemm, 16, 16, dim3(16, 16), op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
