// A product of matrices by wgmma, by pairs of blocks that stay and take tile after tile (Hopper).
//
// Idea        A block for each tile begins with an empty ring and ends with a store, while its tensor cores wait. A block
//             that stays does not: while its consumers store a tile, the producer has long begun with the next one's
//             slices. Results go through shared memory, whole boxes at a time: the copy engine writes full lines, and the
//             consumers need not wait until they are written.
// Change      From 22: as many pairs as there is room for, a loop over tiles, stores by the copy engine, and a start that
//             does not wait for the end of the kernel before.
// Prediction  Of each tile's time the ring's first filling, some 1.5 us, and the store, 1 to 2 us, are saved, but for
//             what the consumers need to round and to write into shared memory: 5 to 10 % for k of 4096, half of it for 8192.
#include "ladder/hgemm/pairs.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr int kWide = 256, kStages = 4, kBoxes = 2;
using Ring = TmaRing<kWide, kStages>;

__global__ void __launch_bounds__(kPairThreads, 1)
    gemm(const __grid_constant__ TmaMaps maps, const __grid_constant__ kit::TensorMap out,
         const __grid_constant__ Sizes s) {
    const Ring ring(kPair * 2 * 4);
    const PairTiles<kWide, kTmaRows> tiles(s);
    kit::cluster_sync();  // the other block's barriers are there too
    kit::dependency_wait();
    kit::dependents_launch();
    const int warp = kit::warp_uniform(static_cast<int>(threadIdx.x) / 32), group = warp / 4 - 1;
    if (group < 0) {
        kit::registers_release<40>();
        if (warp == 0 && kit::elect_one()) bring_tiles(ring, maps, tiles);
        __syncwarp();
    } else {
        kit::registers_acquire<232>();
        OutBox* boxes = boxes_behind(ring, kStages) + kBoxes * group;
        const auto leave = [&](int step) { leave_shared(ring, step % kStages); };
        float sums[kWide / 2];
        for (int i = 0; tiles.has(i); ++i) {
            multiply_stages(sums, ring, 64 * group, i * tiles.steps, tiles.steps, leave);
            Corner at = tiles.corner(i);
            at.row += 64 * group;
            send_sums<kWide, kBoxes>(sums, boxes, out, at, 1 + static_cast<unsigned>(group));
        }
        kit::bulk_wait<0>();
    }
    kit::cluster_sync();  // until here the other block copies and arrives here
}

const RegisterRung<Gemm> kRung{decline_pairs, +[](const Gemm& op, Context& context) {
                                   launch_pairs<Ring, kWide, kTmaRows>(kRung.name(), gemm, 2 * kBoxes, op,
                                                                       context);
                               }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
