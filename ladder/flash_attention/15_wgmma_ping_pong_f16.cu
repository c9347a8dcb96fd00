// Attention by wgmma, whose two consumers take turns at the tensor cores (Hopper).
//
// Idea        The scores of a tile need nothing of the tile before, so they are issued together with that one's values:
//             a warpgroup then has work for the tensor cores that outlasts the other's softmax. Barriers make the two
//             take turns in issuing: one weighs while the other's products run.
// Change      From 14: the loop is skewed by half a tile, and turns.
// Prediction  Of a tile the tensor cores need 1024 clocks for heads of 64 and 2048 for 128, the exponentials of both
//             warpgroups 1024. With turns the shorter hides behind the longer: 1.3 times as fast as 14, more for 64.
#include "ladder/flash_attention/hopper.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// Named barriers 1 and 2 are the consumers' turns.
struct Turns {
    unsigned group;
    __device__ __forceinline__ void wait() const { kit::named_barrier_sync(1 + group, 256); }
    __device__ __forceinline__ void give() const { kit::named_barrier_arrive(2 - group, 256); }
};

// A tile's scores, and with them the values of the tile before; `first`: there is none.
template <bool kFirst, int kHead>
__device__ __forceinline__ void attend_tile(const HeadRing<kHead>& ring, GroupWeights& weights,
                                            GroupRows<kHead>& rows, Turns turns, int tile, int item,
                                            float scale) {
    GroupScores scores;
    if (!kFirst) ring.await_item(item - 1);
    HeadTile<kHead>& keys = ring.await_item(item);
    turns.wait();
    kit::wgmma_fence();
    issue_scores<kHead>(scores, *ring.queries, static_cast<int>(turns.group), keys);
    if constexpr (!kFirst) {
        issue_values<kHead>(rows.out, weights, ring.item(item - 1));
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
    weigh_scores(weights, scores, rows, tile, scale);
}

template <int kHead>
__device__ __forceinline__ void attend_place(const HeadRing<kHead>& ring, const Calls& c, const Place& p,
                                             GroupRows<kHead>& rows, Turns turns, int item) {
    GroupWeights weights;
    if (p.tiles > 0) attend_tile<true>(ring, weights, rows, turns, 0, item, c.scale);
    for (int tile = 1; tile < p.tiles; ++tile)
        attend_tile<false>(ring, weights, rows, turns, tile, item + 2 * tile, c.scale);
    ring.leave(ring.kSlots);
    if (p.tiles == 0) return;
    const int last = item + 2 * p.tiles - 1;
    HeadTile<kHead>& values = ring.await_item(last);
    kit::wgmma_fence();
    issue_values<kHead>(rows.out, weights, values);
    kit::wgmma_wait<0>();
    kit::wgmma_hold(rows.out);
    ring.leave_item(last);
}

template <int kHead>
__global__ void __launch_bounds__(kHopperThreads, 1)
    attend(const __grid_constant__ HeadMaps maps, const __grid_constant__ Calls c, std::int64_t places) {
    const HeadRing<kHead> ring;
    kit::dependency_wait();
    kit::dependents_launch();
    const int warp = kit::warp_uniform(static_cast<int>(threadIdx.x) / 32), group = warp / 4 - 1;
    if (group < 0) {
        kit::registers_release<24>();
        if (warp == 0 && kit::elect_one()) bring_heads(ring, maps, c, places);
    } else {
        kit::registers_acquire<240>();
        const Turns turns{static_cast<unsigned>(group)};
        if (group == 1) turns.give();  // 0 is the first
        int item = 0, n = 0;
        for_places(c, places, [&](const Place& p) {
            GroupRows<kHead> rows(c, p, group);
            ring.await(ring.kSlots, n++);
            attend_place(ring, c, p, rows, turns, item);
            item += 2 * p.tiles;
            store_out(rows, c, p);
        });
        if (group == 0) turns.wait();
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
