// A product of matrices on tensor cores, whose slices the copy engine brings (Hopper).
//
// Idea        One thread names a box of a matrix; the engine finds its addresses, swizzles it into shared memory, writes
//             zeros beyond the edges, and counts its bytes at an mbarrier that everybody waits at. 256 threads have no
//             copies to make.
// Change      TMA and mbarriers in place of cp.async; slices of 64, as wide as a swizzle. The engine takes rows of whole
//             16 bytes alone: k and n are multiples of eight.
// Prediction  Little over 18: the instructions of the copies were few. What TMA is for comes next: wgmma reads what it
//             brings.
#include "ladder/hgemm/tma.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void __launch_bounds__(kStagedThreads, 1)
    gemm(const __grid_constant__ TmaMaps maps, __half* c, const __grid_constant__ Sizes s) {
    constexpr int kStages = 4;
    const TmaRing<128, kStages> ring(1);
    const Corner at = tma_corner<128>(s, blockIdx.x);
    const Warp warp = staged_warp();
    const int steps = static_cast<int>((s.k + kTmaSlice - 1) / kTmaSlice);
    float sums[4][4][4] = {};
    for (int i = 0; i < min(kStages - 1, steps) && threadIdx.x == 0; ++i) ring.bring(maps, at, i);
    for (int step = 0; step < steps; ++step) {
        TmaStage<128>& stage = ring.await(step);
        __syncthreads();  // nobody reads the stage before any more
        const int next = step + kStages - 1;
        if (next < steps && threadIdx.x == 0) ring.bring(maps, at, next);
#pragma unroll
        for (int k = 0; k < kTmaSlice; k += 16) {
            Fragments fragments;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                fragment_a(fragments.a[i], stage.a, warp.row + 16 * i, k);
                fragment_b_transposed(fragments.b[i], stage.b[warp.column / 64], k, warp.column % 64 + 8 * i);
            }
            multiply(sums, fragments);
        }
    }
    store_pairs(sums, c, s, at, warp);
}

const RegisterRung<Gemm> kRung{decline_tma, +[](const Gemm& op, Context& context) {
                                   launch_tma<128, 4>(kRung.name(), gemm, kStagedThreads, op, context);
                               }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
