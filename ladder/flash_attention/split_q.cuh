// Four warps with 16 queries each over the same keys, tile by tile: what shares which memory is told by the rungs.
#pragma once

#include "ladder/flash_attention/flash.cuh"

namespace weft::inline WEFT_TARGET {

// All scores of a warp's queries with a tile of keys; the queries in registers.
template <int kHead, class Tile>
__device__ __forceinline__ void score_tile(Scores<kKeys>& scores, const std::uint32_t (&q)[kHead / 16][4],
                                           Tile& keys) {
#pragma unroll
    for (int k = 0; k < kHead / 16; ++k) score_step<kKeys>(scores, q[k], keys, 0, 16 * k);
}
template <int kHead, class Tile>
__device__ __forceinline__ void load_queries(std::uint32_t (&q)[kHead / 16][4], Tile& tile) {
#pragma unroll
    for (int k = 0; k < kHead / 16; ++k)
        fragment_a(q[k], tile, static_cast<int>(threadIdx.x) / 32 * 16, 16 * k);
}
template <int kHead, class Tile>
__device__ __forceinline__ void add_tile(Rows<kHead>& rows, const Weights<kKeys>& weights, Tile& values) {
#pragma unroll
    for (int n = 0; n < kHead / 8; ++n) add_values<kKeys>(rows.out[n], weights, values, 0, 8 * n);
}

// Keys and values in turn through a ring of kStages tiles. kSharedQ: the queries come through its last one before, and
// stay in registers; else they have a tile of their own.
template <int kHead, int kStages, bool kSharedQ, Banks kBanks>
__global__ void __launch_bounds__(kFlashThreads) attend_by_ring(Calls c) {
    using Tile = HalfTile<kKeys, kHead, kBanks>;
    static_assert(kFlashRows == kKeys && (kStages > 1 || !kSharedQ));
    Tile* stages = kit::dynamic_shared<Tile>();
    Tile& queries = stages[kSharedQ ? kStages - 1 : kStages];
    const Head head(c, kFlashRows);
    const std::int64_t row = flash_row(head), tiles = tiles_of(c, head, kFlashRows);
    std::uint32_t q[kHead / 16][4];
    bring_queries(queries, c, head);
    kit::cp_async_commit();
    kit::cp_async_wait<0>();
    __syncthreads();
    load_queries<kHead>(q, queries);
    Rows<kHead> rows;
    rows.clear();
    const auto bring = [&](Tile& to, std::int64_t step) {
        bring_keys(to, step % 2 == 0 ? head.k : head.v, c, head, step / 2 * kKeys);
    };
    Ring<kStages, Tile, decltype(bring)> ring(stages, 2 * tiles, bring);
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
        Scores<kKeys> scores = {};
        Weights<kKeys> weights;
        score_tile<kHead>(scores, q, ring.take());
        hide<kKeys>(scores, c, row, tile * kKeys);
        weigh<kKeys>(weights, scores, rows, c.scale);
        add_tile(rows, weights, ring.take());
    }
    complete_sums(rows);
    store_rows(rows, c, head, row);
    kit::cp_async_wait<0>();
}

template <int kStages, bool kSharedQ, Banks kBanks>
void launch_by_ring(const char* name, const Attention& op, Context& context) {
    const auto launch = [&]<int kHead>() {
        launch_attention(name, attend_by_ring<kHead, kStages, kSharedQ, kBanks>, kFlashRows, kFlashThreads,
                         op, context,
                         (kStages + (kSharedQ ? 0 : 1)) * sizeof(HalfTile<kKeys, kHead, kBanks>));
    };
    op.q.dim(3) <= 64 ? launch.template operator()<64>() : launch.template operator()<128>();
}

}  // namespace weft::inline WEFT_TARGET
