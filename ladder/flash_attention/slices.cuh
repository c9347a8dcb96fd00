// Attention by slices of 16 along the head: what the rungs for large heads share.
#pragma once

#include "ladder/flash_attention/split_q.cuh"

namespace weft::inline WEFT_TARGET {

inline constexpr int kSliceStages = 3, kSlice = 16;

// A step of either product: 16 columns of queries and keys, or of values.
template <Banks kBanks>
struct HeadSlice {
    HalfTile<kKeys, kSlice, kBanks> a, b;
};

template <int kHead, bool kSliceValues, Banks kBanks>
struct Sliced {
    HeadSlice<kBanks> ring[kSliceStages];
    HalfTile<kKeys, kSliceValues ? kSlice : kHead, kBanks> values;  // of whole rows, if these are not sliced
};

// kHead / 16 steps a tile for the scores, and as many for the output if the values are sliced.
template <int kHead, bool kSliceValues, Banks kBanks>
__global__ void __launch_bounds__(kFlashThreads) attend_by_slices(Calls c) {
    constexpr int kSlices = kHead / kSlice, kSteps = kSliceValues ? 2 * kSlices : kSlices;
    auto& shared = *kit::dynamic_shared<Sliced<kHead, kSliceValues, kBanks>>();
    const Head head(c, kFlashRows);
    const std::int64_t row = flash_row(head), tiles = tiles_of(c, head, kFlashRows);
    const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
    Rows<kHead> rows;
    rows.clear();
    const auto bring = [&](HeadSlice<kBanks>& to, std::int64_t step) {
        const std::int64_t key = step / kSteps * kKeys, slice = step % kSteps;
        if (slice >= kSlices) return bring_keys(to.a, head.v, c, head, key, (slice - kSlices) * kSlice);
        bring_queries(to.a, c, head, slice * kSlice);
        bring_keys(to.b, head.k, c, head, key, slice * kSlice);
    };
    Ring<kSliceStages, HeadSlice<kBanks>, decltype(bring)> ring(shared.ring, tiles * kSteps, bring);
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
        Scores<kKeys> scores = {};
        Weights<kKeys> weights;
        for (int i = 0; i < kSlices; ++i) {
            HeadSlice<kBanks>& slice = ring.take();
            // Behind the barrier of the first slice nobody reads the values before any more.
            if (!kSliceValues && i == 0) bring_keys(shared.values, head.v, c, head, tile * kKeys);
            std::uint32_t q[4];
            fragment_a(q, slice.a, warp_row, 0);
            score_step<kKeys>(scores, q, slice.b, 0, 0);
        }
        hide<kKeys>(scores, c, row, tile * kKeys);
        weigh<kKeys>(weights, scores, rows, c.scale);
        if constexpr (kSliceValues) {
#pragma unroll
            for (int n = 0; n < kHead / 8; n += 2) {
                HeadSlice<kBanks>& slice = ring.take();
                add_values<kKeys>(rows.out[n], weights, slice.a, 0, 0);
                add_values<kKeys>(rows.out[n + 1], weights, slice.a, 0, 8);
            }
        } else {
            kit::cp_async_commit();
            kit::cp_async_wait<0>();
            __syncthreads();
            add_tile(rows, weights, shared.values);
        }
    }
    complete_sums(rows);
    store_rows(rows, c, head, row);
    kit::cp_async_wait<0>();
}

template <bool kSliceValues, Banks kBanks>
void launch_by_slices(const char* name, const Attention& op, Context& context) {
    const auto launch = [&]<int kHead>() {
        launch_attention(name, attend_by_slices<kHead, kSliceValues, kBanks>, kFlashRows, kFlashThreads, op,
                         context, sizeof(Sliced<kHead, kSliceValues, kBanks>));
    };
    op.q.dim(3) <= 128 ? launch.template operator()<128>() : launch.template operator()<256>();
}

}  // namespace weft::inline WEFT_TARGET
