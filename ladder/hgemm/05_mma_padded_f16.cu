// A product of matrices on tensor cores, without bank conflicts.
//
// Idea        Eight elements behind each row move the next by 16 bytes: the eight rows of 16 bytes that ldmatrix reads
//             at once then lie in all 32 banks.
// Change      Padding: one number.
// Prediction  ldmatrix in one turn in place of eight, for a sixth more shared memory; ladder/transpose/07 has the way
//             that costs none.
#include "ladder/hgemm/warp_tile.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using Slices = HalfSlices<kBlockTile, kBlockTile, 8, 8>;

__global__ void gemm(const __half* a, const __half* b, __half* c, Sizes s) {
    Slices& slices = kit::block_shared<Slices>();
    const std::int64_t row = blockIdx.x / s.across * kBlockTile, column = blockIdx.x % s.across * kBlockTile;
    const WarpPlace at = warp_place();
    float sums[kRows][kColumns][4] = {};
    for (std::int64_t k = 0; k < s.k; k += kSlice) {
        bring<kBlockThreads>(slices, a, b, s, row, column, k);
        __syncthreads();
        multiply(sums, slices, at);
        __syncthreads();
    }
    store_tile(sums, c, s, row, column, at);
}

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_product(op, DType::fp16, DType::fp16); },
    +[](const Gemm& op, Context& context) {
        launch_product(kRung.name(), gemm, kBlockTile, kBlockTile, dim3(kBlockThreads), op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
