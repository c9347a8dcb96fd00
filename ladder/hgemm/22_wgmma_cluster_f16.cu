// A product of matrices by wgmma, whose blocks share what they bring in pairs (Hopper).
//
// Idea        Two blocks of a cluster have tiles below each other, and so the same columns of B. Each brings its own rows
//             of A and half of B's slice, by a multicast: the engine reads it once and writes it into both blocks' shared
//             memory, and counts its bytes at both blocks' barriers. So a stage may be filled again when the consumers
//             of both blocks have left it, and a consumer says so to both.
// Change      Clusters of two, multicast, arrivals at the other block's barriers.
// Prediction  A block's slices are 48 KiB a step, of which it now reads 32: a third less from L2. At the full rate a step
//             takes 1024 clocks: 48 bytes a clock become 32, where a multiprocessor gets at most 64, and all of them
//             together less. Where L2 holds 21 up, at 4096 and above, 1.1 times as fast; at 2048, with one tile for each
//             multiprocessor, level. With an odd number of tiles below each other the last pair is half idle.
#include "ladder/hgemm/pairs.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr int kStages = 4;
using Ring = TmaRing<256, kStages>;

__global__ void __launch_bounds__(kPairThreads, 1)
    gemm(const __grid_constant__ TmaMaps maps, __half* c, const __grid_constant__ Sizes s) {
    const Ring ring(kPair * 2 * 4);
    kit::cluster_sync();  // the other block's barriers are there too
    const int rank = static_cast<int>(kit::cluster_rank());
    Corner at = tma_corner<256, kPair * kTmaRows>(s, blockIdx.x / kPair);
    at.row += rank * kTmaRows;
    const int steps = static_cast<int>((s.k + kTmaSlice - 1) / kTmaSlice),
              group = static_cast<int>(threadIdx.x) / 128;
    if (group == 0) {
        kit::registers_release<40>();
        for (int step = 0; step < steps && threadIdx.x == 0; ++step) {
            ring.await_empty(step);
            bring_shared(ring, maps, at, rank, step, step);
        }
        __syncwarp();
    } else {
        kit::registers_acquire<232>();
        const auto leave = [&](int step) { leave_shared(ring, step % kStages); };
        float sums[128];
        multiply_stages(sums, ring, 64 * (group - 1), 0, steps, leave);
        store_sums<256>(sums, c, s, at.row + 64 * (group - 1), at.column);
    }
    kit::cluster_sync();  // until here the other block copies and arrives here
}

const RegisterRung<Gemm> kRung{decline_tma, +[](const Gemm& op, Context& context) {
                                   launch_tma<256, kStages>(kRung.name(), gemm, kPairThreads, op, context,
                                                            kPair);
                               }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
