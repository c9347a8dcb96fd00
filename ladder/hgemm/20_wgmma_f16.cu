// A product of matrices by wgmma, one warpgroup (Hopper).
//
// Idea        Four warps issue one instruction that multiplies 64 by 128 by 16, both operands read from shared memory by
//             the tensor cores themselves: no ldmatrix, no fragments of operands. It runs on beside the warps until it
//             is waited for.
// Change      wgmma in place of ldmatrix and mma.sync; 128 threads, each with 128 sums.
// Prediction  The first rung that can reach Hopper's full rate: mma.sync stops near two thirds of it. Here the tensor
//             cores pause at each step, while the warpgroup waits, and lets the next slice be brought.
#include "ladder/hgemm/wgmma.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void __launch_bounds__(128, 1)
    gemm(const __grid_constant__ TmaMaps maps, __half* c, const __grid_constant__ Sizes s) {
    constexpr int kStages = 4;
    const TmaRing<128, kStages> ring(1);
    const Corner at = tma_corner<128>(s, blockIdx.x);
    const int steps = static_cast<int>((s.k + kTmaSlice - 1) / kTmaSlice);
    float upper[64], lower[64];
    for (int i = 0; i < min(kStages - 1, steps) && threadIdx.x == 0; ++i) ring.bring(maps, at, i);
    for (int step = 0; step < steps; ++step) {
        TmaStage<128>& stage = ring.await(step);
        kit::wgmma_fence();
        multiply_stage<128>(upper, stage, 0, step == 0);
        multiply_stage<128>(lower, stage, 64, step == 0);
        kit::wgmma_commit();
        kit::wgmma_wait<0>();
        __syncthreads();  // all four warps' products have read the stage
        const int next = step + kStages - 1;
        if (next < steps && threadIdx.x == 0) ring.bring(maps, at, next);
    }
    kit::wgmma_hold(upper);
    kit::wgmma_hold(lower);
    store_sums<128>(upper, c, s, at.row, at.column);
    store_sums<128>(lower, c, s, at.row + 64, at.column);
}

const RegisterRung<Gemm> kRung{decline_tma, +[](const Gemm& op, Context& context) {
                                   launch_tma<128, 4>(kRung.name(), gemm, 128, op, context);
                               }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
