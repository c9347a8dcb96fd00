// Attention on wgmma: one warpgroup brings tiles of keys and values, two compute.
#pragma once

#include "kit/ptx/barrier.cuh"
#include "kit/ptx/cluster.cuh"
#include "kit/ptx/elect.cuh"
#include "kit/ptx/pdl.cuh"
#include "kit/ptx/proxy_fence.cuh"
#include "kit/ptx/registers.cuh"
#include "kit/ptx/tma.cuh"
#include "kit/vector.cuh"
#include "ops/attention/wgmma_merge.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// One thread brings the block's rows of queries, zeros beyond the last token. The blocks of a cluster each bring half of
// the boxes to both: at the start all blocks want theirs at once, from an L2 that is no faster than that.
template <int kHeadDim>
__device__ __forceinline__ void load_queries(const WgmmaShared<kHeadDim>& shared, const AttentionParams& p,
                                             const AttentionBlock& block, const kit::TensorMap& queries) {
    constexpr WgmmaTile kTile{kHeadDim};
    kit::mbarrier_arrive_expect(shared.queries_landed,
                                static_cast<unsigned>(kTile.boxes() * p.block_rows * 128));
    const int token = block.row_block * (p.block_rows / p.group);
    for (int box = 0; box < kTile.boxes(); ++box) {
        char* to = shared.queries + box * kTile.query_box_bytes();
        const int at[] = {box * WgmmaTile::kColumns, block.kv_head * p.group, token, block.batch};
        if (p.splits == 1) {
            kit::tma_load(to, queries, shared.queries_landed, at);
        } else if (box % 2 == block.split) {
            kit::tma_load_multicast(to, queries, shared.queries_landed, at, 0b11);
        }
    }
}

// One thread keeps the ring full.
template <int kHeadDim>
__device__ __forceinline__ void load_tiles(const WgmmaShared<kHeadDim>& shared, const AttentionBlock& block,
                                           const WgmmaTiles& tiles, const kit::TensorMap& keys,
                                           const kit::TensorMap& values) {
    constexpr WgmmaTile kTile{kHeadDim};
    for (int item = 0; item < 2 * tiles.count; ++item) {
        const int slot = item % kTile.slots();
        shared.wait_empty(item);
        kit::mbarrier_arrive_expect(&shared.landed[slot], kTile.slot_bytes());
        const kit::TensorMap& map = item % 2 == 0 ? keys : values;
        for (int box = 0; box < kTile.boxes(); ++box) {
            kit::tma_load<4>(shared.slot(item) + box * kTile.box_bytes(), map, &shared.landed[slot],
                             {box * WgmmaTile::kColumns, block.kv_head, tiles.key(item / 2), block.batch});
        }
    }
}

// One warp zeroes the values of keys that do not exist or are masked: what is there might not be finite, and
// a weight of zero would not hide it. Of keys it only releases the slot, so that a slot has the same users whatever is in
// it.
template <int kHeadDim>
__device__ __forceinline__ void clean_values(const WgmmaShared<kHeadDim>& shared, const AttentionBlock& block,
                                             const WgmmaTiles& tiles, const std::uint8_t* mask) {
    constexpr WgmmaTile kTile{kHeadDim};
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int item = 0; item < 2 * tiles.count; ++item) {
        const int slot = item % kTile.slots(), key = tiles.key(item / 2);
        kit::mbarrier_wait(&shared.landed[slot], shared.parity(item));
        for (int row = lane; row < kTile.keys() && item % 2 != 0; row += 32) {
            if (key + row < block.keys && (mask == nullptr || mask[key + row] != 0)) continue;
            for (int i = 0; i < kTile.boxes() * 8; ++i) {
                char* line = shared.slot(item) + i / 8 * kTile.box_bytes() + row * 128;
                kit::store(reinterpret_cast<uint4*>(line) + i % 8, uint4{0, 0, 0, 0});
            }
        }
        kit::fence_proxy_async();
        __syncwarp();
        if (lane == 0) {
            if (item % 2 != 0) kit::mbarrier_arrive(&shared.cleaned[item / 2 % kTile.slots()]);
            kit::mbarrier_arrive(&shared.empty[slot]);
        }
    }
}

// A warpgroup over all tiles. The scores of a tile are issued together with the values of the one before, and
// weighed while those are multiplied; the warpgroups take turns in issuing, so that one weighs while the
// other's products run.
template <class T, bool kOptions, int kHeadDim>
__device__ __forceinline__ void attend(WgmmaState<kHeadDim>& state, const WgmmaShared<kHeadDim>& shared,
                                       const AttentionParams& p, const AttentionBlock& block,
                                       const WgmmaTiles& tiles, int group) {
    constexpr WgmmaTile kTile{kHeadDim};
    const int row = block.row_block * p.block_rows + group * 64;
    const KeyBounds bounds = key_bounds<kOptions>(p, block, row, 64);
    // Looked up where they are needed: registers are short.
    const auto mask = [&]() -> const std::uint8_t* {
        return p.key_mask == nullptr ? nullptr : p.key_mask + block.batch * p.mask_stride;
    };
    const char* queries = shared.queries + group * 64 * 128;
    const auto wait = [&](const kit::Mbarrier* ready, int item) {
        kit::mbarrier_wait(const_cast<kit::Mbarrier*>(ready) + item % kTile.slots(), shared.parity(item));
    };
    const auto wait_values = [&](int tile) {
        hides_values(p) ? wait(shared.cleaned, tile) : wait(shared.landed, 2 * tile + 1);
    };
    const auto release = [&](int item) {
        if (threadIdx.x % 32 == 0) kit::mbarrier_arrive(&shared.empty[item % kTile.slots()]);
    };
    float s[kTile.keys() / 2], shrink[2];
    uint32_t weights[kTile.keys() / 16][4];
    const auto weigh_tile = [&](int tile) {
        const int key = tiles.key(tile);
        if (kOptions && p.capped) cap_scores(s, p.cap_factor);
        if (key + kTile.keys() > bounds.all_end || (kOptions && key < bounds.all_first) ||
            p.key_mask != nullptr)
            hide_scores<kOptions>(s, p, block, mask(), row, key);
        return weigh(s, state, shrink, p.scale_log2);
    };

    // First is who has to hand over at the end, if anyone has.
    const bool leads = group != block.split;
    const unsigned own_turn = 1 + static_cast<unsigned>(group), other_turn = 2 - static_cast<unsigned>(group);
    const auto give_turn = [&](int tile) {
        if (leads || tile + 1 < tiles.count) kit::named_barrier_arrive(other_turn, 256);
    };
    if (!leads) kit::named_barrier_arrive(other_turn, 256);
    wait(shared.landed, 0);
    kit::named_barrier_sync(own_turn, 256);
    kit::wgmma_fence();
    issue_scores<T, kHeadDim>(s, queries, shared.slot(0));
    give_turn(0);
    kit::wgmma_wait<0>();
    kit::wgmma_hold(s);
    release(0);
    weigh_tile(0);
    pack_weights<T>(weights, s);
    for (int tile = 1; tile < tiles.count; ++tile) {
        const int keys = 2 * tile, values = keys - 1;
        wait(shared.landed, keys);
        wait_values(tile - 1);
        kit::named_barrier_sync(own_turn, 256);
        kit::wgmma_fence();
        issue_scores<T, kHeadDim>(s, queries, shared.slot(keys));
        issue_values<T>(state, weights, shared.slot(values));
        give_turn(tile);
        kit::wgmma_wait<1>();
        kit::wgmma_hold(s);
        release(keys);
        const bool outgrown = weigh_tile(tile);
        kit::wgmma_wait<0>();
        kit::wgmma_hold(state.out);
        release(values);
        if (outgrown) shrink_output(state, shrink);
        pack_weights<T>(weights, s);
    }
    wait_values(tiles.count - 1);
    kit::wgmma_fence();
    issue_values<T>(state, weights, shared.slot(2 * tiles.count - 1));
    kit::wgmma_wait<0>();
    kit::wgmma_hold(state.out);
    release(2 * tiles.count - 1);
}

// The finished rows of a warp, through shared memory (where its queries were) for whole 16-byte stores.
template <class T, int kHeadDim>
__device__ __forceinline__ void store_rows(const WgmmaState<kHeadDim>& state,
                                           const WgmmaShared<kHeadDim>& shared, const AttentionParams& p,
                                           const AttentionBlock& block, int group) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int block_row = block.row_block * p.block_rows, end = min(p.block_rows, p.rows - block_row);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int row = group * 64 + wgmma_row(h);
        const float l = state.l[h], inverse = l == 0.0f ? 0.0f : 1.0f / l;
#pragma unroll
        for (int i = 2 * h; i < kHeadDim / 2; i += 4) {
            *reinterpret_cast<uint32_t*>(shared.query(row, i / 4) + lane % 4 * 4) =
                pack_pair<T>(state.out[i] * inverse, state.out[i + 1] * inverse);
        }
        if (p.lse != nullptr && lane % 4 == 0 && row < end) {
            p.lse[block.row_offset(p, p.lse_stride, block_row + row)] =
                (state.m[h] * p.scale_log2 + log2f(l)) * 0.693147180559945309f;
        }
    }
    __syncwarp();
    constexpr int kLanes = kHeadDim <= 64 ? 8 : kHeadDim <= 128 ? 16 : 32, kStep = 32 / kLanes;
    const int chunk = lane % kLanes, first = group * 64 + wgmma_row(0) - lane / 4 + lane / kLanes;
    AttentionRows rows(p, block, p.out_stride, block_row + first, kStep);
#pragma unroll 4
    for (int i = 0; i < 16 / kStep; ++i, rows.next()) {
        const int row = first + i * kStep;
        if (row >= end || chunk * 8 >= p.head_dim) continue;
        const auto values = kit::load_aligned<8>(reinterpret_cast<const T*>(shared.query(row, chunk)));
        kit::store_vector(static_cast<T*>(p.out) + rows.offset() + chunk * 8, values, 8, p.vector_out);
    }
}

// What:    out = softmax(scale q kᵀ) v, a tile of keys at a time, outputs rescaled as the maximum grows
// Mapping: a block has up to 128 rows, of whole tokens: warpgroups 1 and 2 own 64 each, with their whole output in
//          registers; of warpgroup 0 one thread brings queries and keeps a ring of tiles full, and one warp cleans
//          values. The `splits` blocks of a cluster have the same rows and divide the tiles
// Traffic: q once, k and v once a cluster, from L2; bound by wgmma
// Needs:   head_dim <= kHeadDim and a multiple of 8, 16-byte aligned rows, boxes of p.block_rows (queries) and of
//          WgmmaTile (keys and values) in the maps, SM 9.0a; kOptions as attention_flash
template <class T, int kHeadDim, bool kOptions>
__global__ void __launch_bounds__(WgmmaTile::kThreads, 1)
    attention_wgmma(const AttentionParams p, const __grid_constant__ kit::TensorMap queries,
                    const __grid_constant__ kit::TensorMap keys,
                    const __grid_constant__ kit::TensorMap values) {
    const WgmmaShared<kHeadDim> shared;
    if (threadIdx.x == 0) {
        kit::tma_prefetch(queries);
        kit::tma_prefetch(keys);
        kit::tma_prefetch(values);
    }
    shared.initialise(p);
    AttentionBlock block(p);
    kit::dependency_wait();
    kit::dependents_launch();
    if (p.splits > 1) kit::cluster_wait();
    block.read_length(p);
    const WgmmaTiles tiles = tiles_of<kHeadDim, kOptions>(p, block);
    const bool any =
        tiles.count + tiles.other_count > 0;  // in a cluster for both, whose queries come from both
    if (threadIdx.x < 128) {
        kit::registers_release<24>();
        if (threadIdx.x < 32 && kit::elect_one()) {
            if (any) load_queries(shared, p, block, queries);
            load_tiles(shared, block, tiles, keys, values);
            if (p.splits > 1) expect_sums(shared, tiles, block.split);
        }
        if (threadIdx.x / 32 == 1 && hides_values(p)) {
            clean_values(shared, block, tiles,
                         p.key_mask == nullptr ? nullptr : p.key_mask + block.batch * p.mask_stride);
        }
    } else {
        kit::registers_acquire<240>();
        const int group = static_cast<int>(threadIdx.x) / 128 - 1;
        WgmmaState<kHeadDim> state;
        clear(state);
        if (kOptions && p.sinks != nullptr && block.split == 0) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int row = block.row_block * p.block_rows + group * 64 + wgmma_row(h);
                begin_at_sink(state.m[h], state.l[h], p, block, row);
            }
        }
        if (any) kit::mbarrier_wait(shared.queries_landed, 0);
        if (tiles.count > 0) attend<T, kOptions>(state, shared, p, block, tiles, group);
#pragma unroll
        for (float& l : state.l) {
            l += kit::shuffle_xor(l, 1);
            l += kit::shuffle_xor(l, 2);
        }
        if (p.splits > 1) {
            if (group != block.split) return hand_over(state, shared, tiles, block.split);
            take_over(state, shared, p, tiles);
        }
        store_rows<T>(state, shared, p, block, group);
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
