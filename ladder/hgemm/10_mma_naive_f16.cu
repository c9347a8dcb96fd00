// A product of matrices on tensor cores, a warp a tile of 16 by 8.
//
// Idea        mma.sync multiplies a 16 by 16 piece of A by a 16 by 8 piece of B as one instruction of a whole warp,
//             with sums in fp32: 2048 multiply-adds. Each lane holds a part of all three, which ldmatrix brings from
//             shared memory.
// Change      Tensor cores; a block is one warp and one mma wide.
// Prediction  Far above the CUDA cores in arithmetic, and bound by bringing slices that serve a single mma.
#include "ladder/hgemm/fragments.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using Slices = HalfSlices<16, 8, 0, 0>;

__global__ void gemm(const __half* a, const __half* b, __half* c, Sizes s) {
    Slices& slices = kit::block_shared<Slices>();
    const std::int64_t row = blockIdx.x / s.across * 16, column = blockIdx.x % s.across * 8;
    float sums[4] = {};
    for (std::int64_t k = 0; k < s.k; k += kSlice) {
        bring<32>(slices, a, b, s, row, column, k);
        __syncthreads();
        std::uint32_t fragment_a[4], fragment_b[2];
        load_a(fragment_a, slices, 0);
        load_b(fragment_b, slices, 0);
        kit::mma_m16n8k16<__half>(sums, fragment_a, fragment_b);
        __syncthreads();
    }
    store_sums(sums, c, s, row, column);
}

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_product(op, DType::fp16, DType::fp16); },
    +[](const Gemm& op, Context& context) {
        launch_product(kRung.name(), gemm, 16, 8, dim3(32), op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
