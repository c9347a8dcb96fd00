// Attention on wgmma: one warpgroup brings tiles of keys and values, two compute.
#pragma once

#include "kit/ptx/barrier.cuh"
#include "kit/ptx/cluster.cuh"
#include "kit/ptx/pdl.cuh"
#include "kit/ptx/proxy_fence.cuh"
#include "kit/ptx/registers.cuh"
#include "kit/ptx/store_async.cuh"
#include "kit/ptx/tma.cuh"
#include "kit/vector.cuh"
#include "ops/attention/wgmma_math.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// The parts of a block's shared memory. Items of the ring alternate: keys of a tile, then its values. After the last
// come the sums of the cluster's other block.
template <int kHeadDim>
struct WgmmaShared {
    static constexpr WgmmaTile kTile{kHeadDim};
    char *queries, *ring;
    float4* handed_rows;                            // of rows r and r + 8: maximum and maximum, sum and sum
    kit::Mbarrier *landed, *cleaned, *empty;        // one a slot
    kit::Mbarrier *queries_landed, *may_hand_over;  // the second: the other block has room

    __device__ WgmmaShared() {
        queries = kit::align_shared<1024>(kit::dynamic_shared<char>());
        ring = queries + kTile.query_bytes();
        handed_rows = reinterpret_cast<float4*>(ring + kTile.slots() * kTile.slot_bytes());
        landed = reinterpret_cast<kit::Mbarrier*>(handed_rows) + WgmmaTile::kHandedRowBytes / 8;
        cleaned = landed + kTile.slots();
        empty = cleaned + kTile.slots();
        queries_landed = empty + kTile.slots();
        may_hand_over = queries_landed + 1;
    }
    __device__ void initialise(int splits) const {
        if (threadIdx.x == 0) {
            kit::mbarrier_init(queries_landed, 1);
            kit::mbarrier_init(may_hand_over, 1);
            for (int slot = 0; slot < kTile.slots(); ++slot) {
                kit::mbarrier_init(&landed[slot], 1);
                kit::mbarrier_init(&cleaned[slot], 1);
                kit::mbarrier_init(&empty[slot], 4 * WgmmaTile::kWarpgroups);  // warps
            }
            kit::fence_mbarrier_init();
        }
        __syncthreads();
        if (splits > 1) kit::cluster_arrive();  // waited for where the other block is first met
    }
    __device__ char* slot(int item) const { return ring + item % kTile.slots() * kTile.slot_bytes(); }
    __device__ static unsigned parity(int item) { return static_cast<unsigned>(item / kTile.slots()) & 1; }
    // Waits until an item may be brought: the one before it in its slot has been used.
    __device__ void wait_empty(int item) const {
        if (item >= kTile.slots())
            kit::mbarrier_wait(&empty[item % kTile.slots()], parity(item - kTile.slots()));
    }
    // Where chunk `chunk` of row `row` of the queries is.
    __device__ char* query(int row, int chunk) const {
        const auto inside = static_cast<unsigned>(row * 128 + chunk % 8 * 16);
        return queries + chunk / 8 * kTile.query_box_bytes() + kit::swizzled(kit::Swizzle::bytes128, inside);
    }
};

// The key tiles of a block: every splits-th from its own on.
struct WgmmaTiles {
    int count, first, step;
    int other_count;  // of the cluster's other block
    __device__ int key(int tile) const { return first + tile * step; }
};

template <int kHeadDim>
__device__ __forceinline__ WgmmaTiles tiles_of(const AttentionParams& p, const AttentionBlock& block) {
    constexpr WgmmaTile kTile{kHeadDim};
    const int sees = block.limit(p, (block.row_block + 1) * p.block_rows - 1);
    const int all = sees > 0 ? (sees + kTile.keys() - 1) / kTile.keys() : 0;
    const int second = all / 2, count = p.splits == 1 ? all : block.split == 0 ? all - second : second;
    return {count, block.split * kTile.keys(), p.splits * kTile.keys(), all - count};
}

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
// a weight of zero would not hide it. It passes keys on as they are, so that a slot's barriers keep one
// phase.
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
        if (lane == 0) kit::mbarrier_arrive(&shared.cleaned[slot]);
    }
}

// A warpgroup over all tiles. The scores of a tile are issued together with the values of the one before, and
// weighed while those are multiplied; the warpgroups take turns in issuing, so that one weighs while the
// other's products run.
template <class T, int kHeadDim>
__device__ __forceinline__ void attend(WgmmaState<kHeadDim>& state, const WgmmaShared<kHeadDim>& shared,
                                       const AttentionParams& p, const AttentionBlock& block,
                                       const WgmmaTiles& tiles, int group) {
    constexpr WgmmaTile kTile{kHeadDim};
    const int row = block.row_block * p.block_rows + group * 64, least = block.limit(p, row);
    // Looked up where they are needed: registers are short.
    const auto mask = [&]() -> const std::uint8_t* {
        return p.key_mask == nullptr ? nullptr : p.key_mask + block.batch * p.mask_stride;
    };
    const auto values_ready = [&] {
        return p.kv_lengths != nullptr || p.key_mask != nullptr ? shared.cleaned : shared.landed;
    };
    const char* queries = shared.queries + group * 64 * 128;
    const auto wait = [&](const kit::Mbarrier* ready, int item) {
        kit::mbarrier_wait(const_cast<kit::Mbarrier*>(ready) + item % kTile.slots(), shared.parity(item));
    };
    const auto release = [&](int item) {
        if (threadIdx.x % 32 == 0) kit::mbarrier_arrive(&shared.empty[item % kTile.slots()]);
    };
    float s[kTile.keys() / 2], shrink[2];
    uint32_t weights[kTile.keys() / 16][4];
    const auto weigh_tile = [&](int tile) {
        const int key = tiles.key(tile);
        if (key + kTile.keys() > least || p.key_mask != nullptr) hide_scores(s, p, block, mask(), row, key);
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
        wait(values_ready(), values);
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
    wait(values_ready(), 2 * tiles.count - 1);
    kit::wgmma_fence();
    issue_values<T>(state, weights, shared.slot(2 * tiles.count - 1));
    kit::wgmma_wait<0>();
    kit::wgmma_hold(state.out);
    release(2 * tiles.count - 1);
}

// The blocks of a cluster have the same rows: warpgroup g of block 1 - g hands its sums to block g, which receives them
// as the next items of its ring: by then nobody needs those slots any more, while the last products still run. One
// thread says so to the other block.
template <int kHeadDim>
__device__ __forceinline__ void expect_sums(const WgmmaShared<kHeadDim>& shared, const WgmmaTiles& tiles,
                                            int split) {
    constexpr WgmmaTile kTile{kHeadDim};
    for (int i = 0; i < kTile.handed_slots(); ++i) {
        const int item = 2 * tiles.count + i, rows = i == 0 ? WgmmaTile::kHandedRowBytes : 0;
        shared.wait_empty(item);
        kit::mbarrier_arrive_expect(&shared.landed[item % kTile.slots()],
                                    static_cast<unsigned>(kTile.slot_bytes() + rows));
    }
    kit::mbarrier_arrive_remote<false>(shared.may_hand_over, static_cast<unsigned>(1 - split));
}

// Where four sums of this thread, from 4 i on, are handed over: an item of the ring counted from the first such.
template <int kHeadDim>
struct HandedSums {
    static constexpr int kPerSlot = WgmmaTile{kHeadDim}.slot_bytes() / (128 * 16);
    static constexpr int kCount = kHeadDim / 8;
    const WgmmaShared<kHeadDim>& shared;
    int first_item;

    __device__ int item(int i) const { return first_item + i / kPerSlot; }
    __device__ kit::Mbarrier* barrier(int i) const {
        return &shared.landed[item(i) % WgmmaTile{kHeadDim}.slots()];
    }
    __device__ float4* at(int i) const {
        const int thread = static_cast<int>(threadIdx.x) % 128;
        return reinterpret_cast<float4*>(shared.slot(item(i))) + i % kPerSlot * 128 + thread;
    }
    __device__ float4* rows() const { return shared.handed_rows + static_cast<int>(threadIdx.x) % 128 / 4; }
};

template <int kHeadDim>
__device__ __forceinline__ void hand_over(const WgmmaState<kHeadDim>& state,
                                          const WgmmaShared<kHeadDim>& shared, const WgmmaTiles& tiles,
                                          int split) {
    const HandedSums<kHeadDim> there{shared, 2 * tiles.other_count};
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

template <int kHeadDim>
__device__ __forceinline__ void take_over(WgmmaState<kHeadDim>& state, const WgmmaShared<kHeadDim>& shared,
                                          const AttentionParams& p, const WgmmaTiles& tiles) {
    const HandedSums<kHeadDim> here{shared, 2 * tiles.count};
    float keep[2], take[2];
#pragma unroll
    for (int i = 0; i < here.kCount; ++i) {
        if (i % here.kPerSlot == 0)
            kit::mbarrier_wait<true>(here.barrier(i), WgmmaShared<kHeadDim>::parity(here.item(i)));
        if (i == 0) {
            const float4 rows = *here.rows();
            const float m[2] = {rows.x, rows.y}, l[2] = {rows.z, rows.w};
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const float top = fmaxf(state.m[h], m[h]);
                keep[h] = maximum_shift(state.m[h], top, p.scale_log2);
                take[h] = maximum_shift(m[h], top, p.scale_log2);
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
    constexpr int kChunks = kHeadDim / 8, kStep = 32 / kChunks;
    const int chunk = lane % kChunks, first = group * 64 + wgmma_row(0) - lane / 4 + lane / kChunks;
    AttentionRows rows(p, block, p.out_stride, block_row + first, kStep);
#pragma unroll 4
    for (int i = 0; i < 16 / kStep; ++i, rows.next()) {
        const int row = first + i * kStep;
        if (row >= end) continue;
        const auto values = kit::load_aligned<8>(reinterpret_cast<const T*>(shared.query(row, chunk)));
        kit::store_vector(static_cast<T*>(p.out) + rows.offset() + chunk * 8, values, 8, p.vector_out);
    }
}

// What:    out = softmax(scale q kᵀ) v, a tile of keys at a time, outputs rescaled as the maximum grows
// Mapping: a block has up to 128 rows, of whole tokens: warpgroups 1 and 2 own 64 each, with their whole output in
//          registers; of warpgroup 0 one thread brings queries and keeps a ring of tiles full, and one warp cleans
//          values. The `splits` blocks of a cluster have the same rows and divide the tiles
// Traffic: q once, k and v once a cluster, from L2; bound by wgmma
// Needs:   head_dim == kHeadDim, 16-byte aligned rows, boxes of p.block_rows (queries) and of WgmmaTile (keys and
//          values) in the maps, SM 9.0a
template <class T, int kHeadDim>
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
    shared.initialise(p.splits);
    AttentionBlock block(p);
    kit::dependency_wait();
    kit::dependents_launch();
    if (p.splits > 1) kit::cluster_wait();
    block.read_length(p);
    const WgmmaTiles tiles = tiles_of<kHeadDim>(p, block);
    const bool any =
        tiles.count + tiles.other_count > 0;  // in a cluster for both, whose queries come from both
    if (threadIdx.x < 128) {
        kit::registers_release<24>();
        if (threadIdx.x == 0) {
            if (any) load_queries(shared, p, block, queries);
            load_tiles(shared, block, tiles, keys, values);
            if (p.splits > 1) expect_sums(shared, tiles, block.split);
        }
        if (threadIdx.x / 32 == 1 && (p.kv_lengths != nullptr || p.key_mask != nullptr)) {
            clean_values(shared, block, tiles,
                         p.key_mask == nullptr ? nullptr : p.key_mask + block.batch * p.mask_stride);
        }
    } else {
        kit::registers_acquire<240>();
        const int group = static_cast<int>(threadIdx.x) / 128 - 1;
        WgmmaState<kHeadDim> state;
        clear(state);
        if (any) kit::mbarrier_wait(shared.queries_landed, 0);
        if (tiles.count > 0) attend<T>(state, shared, p, block, tiles, group);
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
