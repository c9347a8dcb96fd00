// Attention by wgmma, whose consumers take turns at the tensor cores (Hopper).
//
// Idea        The scores of a tile need nothing of the tile before, so they are issued together with that one's values:
//             a warpgroup then has work for the tensor cores that outlasts the others' softmax. Barriers make them take
//             turns in issuing: while one's products run, the others weigh.
// Change      From 14: the loop is skewed by half a tile; turns; three warpgroups with 64 queries each, for which heads of
//             128 have tiles of 80 keys, as registers are 160 a thread.
// Prediction  Of 192 queries by 128 keys the tensor cores need 1536 clocks for heads of 64, and so do the exponentials; for
//             heads of 128 twice as many. With turns the shorter hides behind the longer: 1.2 to 1.3 times as fast as 14.
#include "kit/turns.cuh"
#include "ladder/flash_attention/hopper.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// A tile's scores, and with them the values of the tile before; kFirst: there is none.
template <bool kFirst, class H>
__device__ __forceinline__ void attend_tile(const HeadRing<H>& ring, GroupWeights<H>& weights,
                                            GroupRows<H>& rows, int group, const kit::Turns& turns, int tile,
                                            int item, float scale) {
    GroupScores<H> scores;
    if (!kFirst) ring.await_item(item - 1);
    auto& keys = ring.await_item(item);
    turns.wait();
    kit::wgmma_fence();
    issue_scores<H>(scores, ring, group, keys);
    if constexpr (!kFirst) {
        issue_values<H>(rows, weights, ring.item(item - 1));
        turns.give();
        kit::wgmma_wait<1>();
        ring.leave_item(item);
        kit::wgmma_wait<0>();
        kit::wgmma_hold(rows.out);
        ring.leave_item(item - 1);
    } else {
        turns.give();
        kit::wgmma_wait<0>();
        ring.leave_item(item);
    }
    kit::wgmma_hold(scores);
    weigh_scores<H>(weights, scores, rows, tile, scale);
}

template <class H>
__device__ __forceinline__ void attend_place(const HeadRing<H>& ring, const Calls& c, const Place& p,
                                             GroupRows<H>& rows, int group, const kit::Turns& turns,
                                             int item) {
    GroupWeights<H> weights;
    item = kit::warp_uniform(item);  // so that descriptors are in the registers that wgmma takes them from
    if (p.tiles > 0) attend_tile<true, H>(ring, weights, rows, group, turns, 0, item, c.scale);
    for (int tile = 1; tile < p.tiles; ++tile)
        attend_tile<false, H>(ring, weights, rows, group, turns, tile, item + 2 * tile, c.scale);
    ring.leave_queries();
    if (p.tiles == 0) return;
    const int last = item + 2 * p.tiles - 1;
    auto& values = ring.await_item(last);
    kit::wgmma_fence();
    issue_values<H>(rows, weights, values);
    kit::wgmma_wait<0>();
    kit::wgmma_hold(rows.out);
    ring.leave_item(last);
}

template <class H>
__global__ void __launch_bounds__(H::kThreads, 1)
    attend(const __grid_constant__ HeadMaps maps, const __grid_constant__ Calls c, std::int64_t places) {
    const HeadRing<H> ring;
    kit::dependency_wait();
    kit::dependents_launch();
    const int warp = kit::warp_uniform(static_cast<int>(threadIdx.x) / 32), group = warp / 4 - 1;
    if (group < 0) {
        kit::registers_release<H::kBringing>();
        if (warp == 0 && kit::elect_one()) bring_heads(ring, maps, c, places);
    } else {
        kit::registers_acquire<H::kComputing>();
        const kit::Turns turns(group, H::kGroups);
        turns.begin();
        int item = 0, n = 0;
        for_places<H::kRows, H::kKeys>(c, places, [&](const Place& p) {
            GroupRows<H> rows(c, p, group);
            ring.await_queries(n++);
            attend_place(ring, c, p, rows, group, turns, item);
            item += 2 * p.tiles;
            store_out(rows, c, p);
        });
        turns.end();
    }
}

using Narrow = Hopper<64, 128, 3>;
using Wide = Hopper<128, 80, 3>;

const RegisterRung<Attention> kRung{decline_hopper, +[](const Attention& op, Context& context) {
                                        if (op.q.dim(3) <= 64) {
                                            launch_hopper<Narrow>(kRung.name(), attend<Narrow>, op, context);
                                        } else {
                                            launch_hopper<Wide>(kRung.name(), attend<Wide>, op, context);
                                        }
                                    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
