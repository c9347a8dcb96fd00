// Attention on wgmma: the sums that a cluster's blocks hand to each other.
#pragma once

#include "kit/ptx/store_async.cuh"
#include "ops/attention/wgmma_math.cuh"
#include "ops/attention/wgmma_shared.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// The blocks of a cluster have the same rows: warpgroup g of block 1 - g hands its sums to block g, which receives them
// as the next items of its ring: by then nobody needs those slots any more, while the last products still run. One
// thread says so to the other block.
template <WgmmaTile kTile>
__device__ __forceinline__ void expect_sums(const WgmmaShared<kTile>& shared, const KeyTiles& tiles,
                                            int split) {
    for (int i = 0; i < kTile.handed_slots(); ++i) {
        const int item = tiles.end_item() + i, rows = i == 0 ? WgmmaTile::kHandedRowBytes : 0;
        const int sums = min(kTile.slot_bytes(), kTile.handed_bytes() - i * kTile.slot_bytes());
        shared.wait_empty(item);
        kit::mbarrier_arrive_expect(&shared.landed[item % kTile.slots()], static_cast<unsigned>(sums + rows));
    }
    kit::mbarrier_arrive_remote<false>(shared.may_hand_over, static_cast<unsigned>(1 - split));
}

// Where four sums of this thread, from 4 i on, are handed over: an item of the ring counted from the first such.
template <WgmmaTile kTile>
struct HandedSums {
    static constexpr int kPerSlot = kTile.slot_bytes() / (128 * 16);
    static constexpr int kCount = kTile.v_dim() / 8;
    const WgmmaShared<kTile>& shared;
    int first_item;

    __device__ int item(int i) const { return first_item + i / kPerSlot; }
    __device__ kit::Mbarrier* barrier(int i) const { return &shared.landed[item(i) % kTile.slots()]; }
    __device__ float4* at(int i) const {
        const int thread = static_cast<int>(threadIdx.x) % 128;
        return reinterpret_cast<float4*>(shared.slot(item(i))) + i % kPerSlot * 128 + thread;
    }
    __device__ float4* rows() const { return shared.handed_rows + static_cast<int>(threadIdx.x) % 128 / 4; }
};

template <WgmmaTile kTile>
__device__ __forceinline__ void hand_over(const WgmmaState<kTile>& state, const WgmmaShared<kTile>& shared,
                                          const KeyTiles& tiles, int split) {
    const HandedSums<kTile> there{shared, 2 * tiles.other_count};
    const auto rank = static_cast<unsigned>(1 - split);
    kit::mbarrier_wait(shared.may_hand_over, 0);
    if (threadIdx.x % 4 == 0) {  // the others of the row know the same
        kit::store_async(there.rows(), {state.m[0], state.m[1], state.l[0], state.l[1]}, there.barrier(0),
                         rank);
    }
#pragma unroll
    for (int i = 0; i < there.kCount; ++i) {
        const float* out = state.out + 4 * i;
        kit::store_async(there.at(i), {out[0], out[1], out[2], out[3]}, there.barrier(i), rank);
    }
}

template <WgmmaTile kTile>
__device__ __forceinline__ void take_over(WgmmaState<kTile>& state, const WgmmaShared<kTile>& shared,
                                          const KeyTiles& tiles, float scale_log2) {
    const HandedSums<kTile> here{shared, tiles.end_item()};
    float keep[2], take[2];
#pragma unroll
    for (int i = 0; i < here.kCount; ++i) {
        if (i % here.kPerSlot == 0)
            kit::mbarrier_wait<true>(here.barrier(i), WgmmaShared<kTile>::parity(here.item(i)));
        if (i == 0) {
            const float4 rows = *here.rows();
            const float m[2] = {rows.x, rows.y}, l[2] = {rows.z, rows.w};
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const float top = fmaxf(state.m[h], m[h]);
                keep[h] = maximum_shift(state.m[h], top, scale_log2);
                take[h] = maximum_shift(m[h], top, scale_log2);
                state.m[h] = top;
                state.l[h] = state.l[h] * keep[h] + l[h] * take[h];
            }
        }
        const float4 sums = *here.at(i);
        float* out = state.out + 4 * i;
        out[0] = out[0] * keep[0] + sums.x * take[0];
        out[1] = out[1] * keep[0] + sums.y * take[0];
        out[2] = out[2] * keep[1] + sums.z * take[1];
        out[3] = out[3] * keep[1] + sums.w * take[1];
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
