// A product of matrices by wgmma, one warpgroup bringing what two multiply (Hopper).
//
// Idea        Who multiplies does nothing else. One thread of a warpgroup of its own keeps the ring full: it waits until
//             both consumers have left a stage. A consumer issues a stage's products before it waits for those of the
//             stage before, so that the tensor cores always have the next ones. setmaxnreg moves registers to where the
//             sums are.
// Change      Roles; barriers in both directions in place of __syncthreads; tiles of 128 by 256.
// Prediction  Close to what the card's matrix rate allows for large products. What is left: slices that
//             two blocks bring alike (22), and a last round of tiles that leaves multiprocessors idle (23).
#include "kit/ptx/registers.cuh"
#include "ladder/hgemm/wgmma.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr int kThreads = 3 * 128, kStages = 4;

__device__ __forceinline__ void produce(const TmaRing<256, kStages>& ring, const TmaMaps& maps, Corner at,
                                        int steps) {
    for (int step = 0; step < steps; ++step) {
        ring.await_empty(step);
        ring.bring(maps, at, step);
    }
}

__device__ __forceinline__ void consume(float (&sums)[128], const TmaRing<256, kStages>& ring, int row,
                                        int steps) {
    const auto leave = [&](int step) {
        if (lane_of_warp() == 0) kit::mbarrier_arrive(&ring.empty[step % kStages]);
    };
    multiply_stages(sums, ring, row, 0, steps, leave);
}

__global__ void __launch_bounds__(kThreads, 1)
    gemm(const __grid_constant__ TmaMaps maps, __half* c, const __grid_constant__ Sizes s) {
    const TmaRing<256, kStages> ring(2 * 4);
    const Corner at = tma_corner<256>(s, blockIdx.x);
    const int steps = static_cast<int>((s.k + kTmaSlice - 1) / kTmaSlice),
              group = static_cast<int>(threadIdx.x) / 128;
    if (group == 0) {
        kit::registers_release<40>();
        if (threadIdx.x == 0) produce(ring, maps, at, steps);
    } else {
        kit::registers_acquire<232>();
        float sums[128];
        consume(sums, ring, 64 * (group - 1), steps);
        store_sums<256>(sums, c, s, at.row + 64 * (group - 1), at.column);
    }
}

const RegisterRung<Gemm> kRung{decline_tma, +[](const Gemm& op, Context& context) {
                                   launch_tma<256, 4>(kRung.name(), gemm, kThreads, op, context);
                               }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
