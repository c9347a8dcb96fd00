// A product of matrices, by slices of k through shared memory.
//
// Idea        A block has a tile of 16 by 16 outputs, which share 16 rows of A and 16 columns of B. It walks along k
//             in slices that all of its threads load together: each element is read from global memory once a block in
//             place of 16 times.
// Change      Two slices in shared memory, and two barriers a slice.
// Prediction  Several times 01; now two loads from shared memory for a multiplication are the bound.
#include "ladder/sgemm/product.h"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr int kTile = 16;

struct Slices {
    float a[kTile][kTile], b[kTile][kTile];
};

__global__ void gemm(const float* a, const float* b, float* c, Sizes s) {
    Slices& slices = kit::block_shared<Slices>();
    const int x = threadIdx.x, y = threadIdx.y;
    const std::int64_t row = blockIdx.x / s.across * kTile + y, column = blockIdx.x % s.across * kTile + x;
    float sum = 0.0f;
    for (std::int64_t k = 0; k < s.k; k += kTile) {
        // Zeros beyond the edges add nothing. No thread leaves: all of them load for the others.
        slices.a[y][x] = row < s.m && k + x < s.k ? a[row * s.k + k + x] : 0.0f;
        slices.b[y][x] = k + y < s.k && column < s.n ? b[(k + y) * s.n + column] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kTile; ++i) sum = fmaf(slices.a[y][i], slices.b[i][x], sum);
        __syncthreads();  // nobody loads the next slices while somebody still reads these
    }
    if (row < s.m && column < s.n) c[row * s.n + column] = sum;
}

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_product(op, DType::fp32, DType::fp32); },
    +[](const Gemm& op, Context& context) {
        launch_product(kRung.name(), gemm, 16, 16, dim3(16, 16), op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
