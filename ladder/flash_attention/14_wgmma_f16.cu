// Attention by wgmma, one warpgroup bringing what two multiply (Hopper).
//
// Idea        As ladder/hgemm/21: a thread keeps a ring of tiles full, of keys and values in turn; two warpgroups have 64
//             queries each, and everything else in registers. wgmma reads the queries, keys and values from shared memory
//             itself; weights are its operand in registers, a lane has them where it had the scores. Blocks stay, and
//             bring the next queries and keys while the last rows are stored.
// Change      From 08: wgmma, TMA, roles; exponentials by one instruction each; maxima only where weights outgrow them
//             (weigh_scores).
// Prediction  Within a warpgroup products and softmax still wait for each other. The two share the tensor cores by chance:
//             while one weighs, the other may multiply, or both may do the same. Several times as fast as 08, and short
//             of what the tensor cores give by a third or so.
#include "ladder/flash_attention/hopper.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

template <class H>
__device__ __forceinline__ void attend_group(const HeadRing<H>& ring, const Calls& c, std::int64_t places,
                                             int group) {
    int item = 0, n = 0;
    for_places<H::kRows, H::kKeys>(c, places, [&](const Place& p) {
        GroupRows<H> rows(c, p, group);
        ring.await_queries(n++);
        item =
            kit::warp_uniform(item);  // so that descriptors are in the registers that wgmma takes them from
        for (int tile = 0; tile < p.tiles; ++tile, item += 2) {
            GroupScores<H> scores;
            GroupWeights<H> weights;
            auto& keys = ring.await_item(item);
            kit::wgmma_fence();
            issue_scores<H>(scores, ring, group, keys);
            kit::wgmma_wait<0>();
            kit::wgmma_hold(scores);
            ring.leave_item(item);
            weigh_scores<H>(weights, scores, rows, tile, c.scale);
            auto& values = ring.await_item(item + 1);
            kit::wgmma_fence();
            issue_values<H>(rows, weights, values);
            kit::wgmma_wait<0>();
            kit::wgmma_hold(rows.out);
            ring.leave_item(item + 1);
        }
        ring.leave_queries();
        store_out(rows, c, p);
    });
}

template <class H>
__global__ void __launch_bounds__(H::kThreads, 1)
    attend(const __grid_constant__ HeadMaps maps, const __grid_constant__ Calls c, std::int64_t places) {
    const HeadRing<H> ring;
    kit::dependency_wait();
    kit::dependents_launch();
    const int warp = kit::warp_uniform(static_cast<int>(threadIdx.x) / 32);
    if (warp < 4) {
        kit::registers_release<H::kBringing>();
        if (warp == 0 && kit::elect_one()) bring_heads(ring, maps, c, places);
    } else {
        kit::registers_acquire<H::kComputing>();
        attend_group(ring, c, places, warp / 4 - 1);
    }
}

using Narrow = Hopper<64, 128, 2>;
using Wide = Hopper<128, 128, 2>;

const RegisterRung<Attention> kRung{decline_hopper, +[](const Attention& op, Context& context) {
                                        if (op.q.dim(3) <= 64) {
                                            launch_hopper<Narrow>(kRung.name(), attend<Narrow>, op, context);
                                        } else {
                                            launch_hopper<Wide>(kRung.name(), attend<Wide>, op, context);
                                        }
                                    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
