// A product of matrices by wgmma, whose two consumers have a tile each and take turns (Hopper).
//
// Idea        In 25 both consumers end a tile at the same time, and then the tensor cores wait for both to store. Here
//             each has a tile of its own, and they multiply in turn: while one has the tensor cores, the other rounds and
//             stores. One warpgroup is enough to keep the tensor cores busy. Barriers hand over the turn when a tile's
//             last products are issued, so that the next one's follow without a gap.
// Change      From 25: tiles of 64 rows, the ring's slices for one consumer after the other, and turns.
// Prediction  The store costs nothing any more. But two stages, 80 KiB, have the products of one of 25's with 48: a block
//             reads 24 KiB in 512 clocks, half as much again as 25. Where L2 can give that, this is the faster one;
//             where it cannot, or power holds back the clocks, 25 is, above all where k is long and stores are few.
#include "kit/turns.cuh"
#include "ladder/hgemm/pairs.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr int kWide = 256, kHigh = 64, kStages = 5;
using Ring = TmaRing<kWide, kStages, TmaStage<kWide, kHigh>>;

__device__ __forceinline__ void consume(const Ring& ring, const PairTiles<kWide, kHigh>& tiles,
                                        const kit::TensorMap& out, int group) {
    const kit::Turns turns(group, 2);  // one for each tile of either group
    const auto leave = [&](int step) { leave_shared(ring, step % kStages); };
    turns.begin();
    for (int i = group; tiles.has(i - group); i += 2) {
        turns.wait();
        if (!tiles.has(i)) {  // the last round has one tile only
            turns.give();
            break;
        }
        float sums[kWide / 2];
        multiply_stages(sums, ring, 0, i * tiles.steps, tiles.steps, leave, [&] { turns.give(); });
        send_sums<kWide, 1>(sums, boxes_behind(ring, kStages) + group, out, tiles.corner(i),
                            3 + static_cast<unsigned>(group));
    }
    turns.end();
    kit::bulk_wait<0>();
}

__global__ void __launch_bounds__(kPairThreads, 1)
    gemm(const __grid_constant__ TmaMaps maps, const __grid_constant__ kit::TensorMap out,
         const __grid_constant__ Sizes s) {
    const Ring ring(kPair * 4);
    const PairTiles<kWide, kHigh> tiles(s);
    kit::cluster_sync();
    kit::dependency_wait();
    kit::dependents_launch();
    const int warp = kit::warp_uniform(static_cast<int>(threadIdx.x) / 32);
    if (warp < 4) {
        kit::registers_release<40>();
        if (warp == 0 && kit::elect_one()) bring_tiles(ring, maps, tiles);
        __syncwarp();
    } else {
        kit::registers_acquire<232>();
        consume(ring, tiles, out, warp / 4 - 1);
    }
    kit::cluster_sync();
}

const RegisterRung<Gemm> kRung{decline_pairs, +[](const Gemm& op, Context& context) {
                                   launch_pairs<Ring, kWide, kHigh>(kRung.name(), gemm, 2, op, context);
                               }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
