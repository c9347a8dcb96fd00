// A product of matrices on tensor cores by WMMA, a warp a tile of 16 by 16.
//
// Idea        WMMA is the tensor cores' interface for C++: a warp loads fragments from memory, multiplies 16 by 16 by
//             16 at once with sums in fp32, and stores. Which lane holds what is the compiler's affair, so the sums can
//             be looked at in shared memory alone.
// Change      Tensor cores; a block is one warp.
// Prediction  Far above the CUDA cores in arithmetic, and bound by bringing slices that serve 4096 multiply-adds.
#include "ladder/hgemm/wmma.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

struct Shared {
    alignas(32) HalfTile<16, 16, Banks::plain> a, b;
    float patch[256];
};

__global__ void gemm(const __half* a, const __half* b, __half* c, Sizes s) {
    Shared& shared = kit::block_shared<Shared>();
    const std::int64_t row = blockIdx.x / s.across * 16, column = blockIdx.x % s.across * 16;
    kit::WmmaSums<16, 16, 16> sums;
    kit::wmma_clear(sums);
    for (std::int64_t k = 0; k < s.k; k += 16) {
        bring_tile<32>(shared.a, a, s.m, s.k, s.k, row, k, false);
        bring_tile<32>(shared.b, b, s.k, s.n, s.n, k, column, false);
        __syncthreads();
        kit::WmmaA<__half, 16, 16, 16> fragment_a;
        kit::WmmaB<__half, 16, 16, 16> fragment_b;
        kit::wmma_load(fragment_a, shared.a.at, 16);
        kit::wmma_load(fragment_b, shared.b.at, 16);
        kit::wmma_multiply(sums, fragment_a, fragment_b);
        __syncthreads();
    }
    store_wmma(sums, shared.patch, c, s, row, column);
}

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_product(op, DType::fp16, DType::fp16); },
    +[](const Gemm& op, Context& context) {
        launch_product(kRung.name(), gemm, 16, 16, dim3(32), op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
