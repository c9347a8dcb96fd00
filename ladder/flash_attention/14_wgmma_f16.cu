// Attention by wgmma, one warpgroup bringing what two multiply (Hopper).
//
// Idea        As ladder/hgemm/21: a thread keeps a ring of tiles full, of keys and values in turn; two warpgroups have 64
//             queries each, and everything else in registers. wgmma reads the queries, keys and values from shared memory
//             itself; weights are its operand in registers, a lane has them where it had the scores. Blocks stay, and
//             bring the next queries and keys while the last rows are stored.
// Change      From 08: wgmma, TMA, roles; exponentials by one instruction each.
// Prediction  Within a warpgroup products and softmax still wait for each other. The two share the tensor cores by chance:
//             while one weighs, the other may multiply, or both may do the same. Several times as fast as 08, and short
//             of what the tensor cores give by a third or so.
#include "ladder/flash_attention/hopper.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

template <int kHead>
__device__ __forceinline__ void attend_group(const HeadRing<kHead>& ring, const Calls& c, std::int64_t places,
                                             int group) {
    int item = 0, n = 0;
    for_places(c, places, [&](const Place& p) {
        GroupRows<kHead> rows(c, p, group);
        ring.await(ring.kSlots, n++);
        for (int tile = 0; tile < p.tiles; ++tile, item += 2) {
            GroupScores scores;
            GroupWeights weights;
            HeadTile<kHead>& keys = ring.await_item(item);
            kit::wgmma_fence();
            issue_scores<kHead>(scores, *ring.queries, group, keys);
            kit::wgmma_wait<0>();
            kit::wgmma_hold(scores);
            ring.leave_item(item);
            weigh_scores(weights, scores, rows, tile, c.scale);
            HeadTile<kHead>& values = ring.await_item(item + 1);
            kit::wgmma_fence();
            issue_values<kHead>(rows.out, weights, values);
            kit::wgmma_wait<0>();
            kit::wgmma_hold(rows.out);
            ring.leave_item(item + 1);
        }
        ring.leave(ring.kSlots);
        store_out(rows, c, p);
    });
}

template <int kHead>
__global__ void __launch_bounds__(kHopperThreads, 1)
    attend(const __grid_constant__ HeadMaps maps, const __grid_constant__ Calls c, std::int64_t places) {
    const HeadRing<kHead> ring;
    kit::dependency_wait();
    kit::dependents_launch();
    const int warp = kit::warp_uniform(static_cast<int>(threadIdx.x) / 32);
    if (warp < 4) {
        kit::registers_release<24>();
        if (warp == 0 && kit::elect_one()) bring_heads(ring, maps, c, places);
    } else {
        kit::registers_acquire<240>();
        attend_group(ring, c, places, warp / 4 - 1);
    }
}

const RegisterRung<Attention> kRung{decline_hopper, +[](const Attention& op, Context& context) {
                                        if (op.q.dim(3) <= 64) {
                                            launch_hopper<64>(kRung.name(), attend<64>, op, context);
                                        } else {
                                            launch_hopper<128>(kRung.name(), attend<128>, op, context);
                                        }
                                    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
