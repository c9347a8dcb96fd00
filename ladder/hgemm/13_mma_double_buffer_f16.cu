// A product of matrices on tensor cores, with two buffers.
//
// Idea        The next slice is brought into the other buffer before this one is multiplied. Nothing waits for its
//             loads but its stores, and the mma between them need neither: one barrier a slice is enough.
// Change      Two buffers in turn.
// Prediction  The latency of global memory hides behind the mma. What is left to gain: vectors of 16 bytes, cp.async
//             over more stages, and on Hopper TMA and wgmma, as in the library's own gemm.
#include "ladder/hgemm/warp_tile.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using Slices = HalfSlices<kBlockTile, kBlockTile, 8, 8>;

__global__ void gemm(const __half* a, const __half* b, __half* c, Sizes s) {
    struct Buffers {
        Slices at[2];
    };
    auto& slices = kit::block_shared<Buffers>().at;
    const std::int64_t row = blockIdx.x / s.across * kBlockTile, column = blockIdx.x % s.across * kBlockTile;
    const WarpPlace at = warp_place();
    float sums[kRows][kColumns][4] = {};
    bring<kBlockThreads>(slices[0], a, b, s, row, column, 0);
    __syncthreads();
    int now = 0;
    for (std::int64_t k = 0; k < s.k; k += kSlice, now ^= 1) {
        if (k + kSlice < s.k) bring<kBlockThreads>(slices[now ^ 1], a, b, s, row, column, k + kSlice);
        multiply(sums, slices[now], at);
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
