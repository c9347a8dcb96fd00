// A product of matrices on tensor cores by WMMA, 64 by 32 outputs a warp.
//
// Idea        Eight warps, two by four, share slices of a tile of 128 by 128; a warp's four fragments of A and two of B
//             give eight products. An element that is brought once serves 128 outputs.
// Change      More products a warp, more warps a block, slices of 32 along k.
// Prediction  Many times 06. Bringing a slice and multiplying it take turns: each waits for the other.
#include "ladder/hgemm/wmma.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void __launch_bounds__(kStagedThreads) gemm(const __half* a, const __half* b, __half* c, Sizes s) {
    using Slices = Stage<Banks::padded>;
    struct alignas(kAligned) Aligned : Slices {};
    Slices& slices = kit::block_shared<Aligned>();
    const Corner at = by_rows(s);
    const Warp warp = staged_warp();
    WarpSums<16, 16> sums;
    sums.clear();
    for (std::int64_t k = 0; k < s.k; k += kStagedSlice) {
        bring_slices(slices, a, b, s, at, k);
        kit::cp_async_commit();
        kit::cp_async_wait<0>();
        __syncthreads();
        sums.multiply(slices, warp);
        __syncthreads();
    }
    sums.store(reinterpret_cast<float*>(&slices), c, s, at, warp);
}

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_product(op, DType::fp16, DType::fp16); },
    +[](const Gemm& op, Context& context) {
        launch_product(kRung.name(), gemm, kStagedTile, kStagedTile, dim3(kStagedThreads), op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
