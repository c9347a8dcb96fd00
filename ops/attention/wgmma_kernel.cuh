// Attention on wgmma: one warpgroup brings tiles of keys and values, two compute.
#pragma once

#include "kit/ptx/barrier.cuh"
#include "kit/ptx/cluster.cuh"
#include "kit/ptx/cp_async.cuh"
#include "kit/ptx/pdl.cuh"
#include "kit/ptx/proxy_fence.cuh"
#include "kit/ptx/registers.cuh"
#include "kit/ptx/tma.cuh"
#include "kit/vector.cuh"
#include "ops/attention/wgmma_math.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// The parts of a block's shared memory. Items of the ring alternate: keys of a tile, then its values.
template <int kHeadDim>
struct WgmmaShared {
    static constexpr WgmmaTile kTile{kHeadDim};
    char *queries, *ring;
    kit::Mbarrier *landed, *cleaned, *empty;  // one a slot

    __device__ WgmmaShared() {
        queries = kit::align_shared<1024>(kit::dynamic_shared<char>());
        ring = queries + kTile.query_bytes();
        landed = reinterpret_cast<kit::Mbarrier*>(ring + kTile.slots() * kTile.slot_bytes());
        cleaned = landed + kTile.slots();
        empty = cleaned + kTile.slots();
    }
    __device__ void initialise() const {
        if (threadIdx.x == 0) {
            for (int slot = 0; slot < kTile.slots(); ++slot) {
                kit::mbarrier_init(&landed[slot], 1);
                kit::mbarrier_init(&cleaned[slot], 1);
                kit::mbarrier_init(&empty[slot], 4 * WgmmaTile::kWarpgroups);  // warps
            }
            kit::fence_mbarrier_init();
        }
        __syncthreads();
    }
    __device__ char* slot(int item) const { return ring + item % kTile.slots() * kTile.slot_bytes(); }
    __device__ static unsigned parity(int item) { return static_cast<unsigned>(item / kTile.slots()) & 1; }
    // Where chunk `chunk` of row `row` of the queries is.
    __device__ char* query(int row, int chunk) const {
        const auto inside = static_cast<unsigned>(row * 128 + chunk % 8 * 16);
        return queries + chunk / 8 * kTile.query_box_bytes() + kit::swizzled(kit::Swizzle::bytes128, inside);
    }
};

// The key tiles of a block: every splits-th from its own on.
struct WgmmaTiles {
    int count, first, step;
    __device__ int key(int tile) const { return first + tile * step; }
};

template <int kHeadDim>
__device__ __forceinline__ WgmmaTiles tiles_of(const AttentionParams& p, const AttentionBlock& block) {
    constexpr WgmmaTile kTile{kHeadDim};
    const int sees = block.limit(p, (block.row_block + 1) * kTile.rows() - 1);
    const int all = sees > 0 ? (sees + kTile.keys() - 1) / kTile.keys() : 0;
    return {max(0, (all - block.split + p.splits - 1) / p.splits), block.split * kTile.keys(),
            p.splits * kTile.keys()};
}

// One thread keeps the ring full.
template <int kHeadDim>
__device__ __forceinline__ void load_tiles(const WgmmaShared<kHeadDim>& shared, const AttentionBlock& block,
                                           const WgmmaTiles& tiles, const kit::TensorMap& keys,
                                           const kit::TensorMap& values) {
    constexpr WgmmaTile kTile{kHeadDim};
    for (int item = 0; item < 2 * tiles.count; ++item) {
        const int slot = item % kTile.slots();
        if (item >= kTile.slots())
            kit::mbarrier_wait(&shared.empty[slot], shared.parity(item - kTile.slots()));
        kit::mbarrier_arrive_expect(&shared.landed[slot], kTile.slot_bytes());
        const kit::TensorMap& map = item % 2 == 0 ? keys : values;
        for (int box = 0; box < kTile.boxes(); ++box) {
            kit::tma_load<4>(shared.slot(item) + box * kTile.box_bytes(), map, &shared.landed[slot],
                             {box * WgmmaTile::kColumns, tiles.key(item / 2), block.kv_head, block.batch});
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

// A warpgroup's 64 rows of queries, zeros beyond the last. All chunks are on their way at once: a block's few tiles
// are over soon.
template <class T, int kHeadDim>
__device__ __forceinline__ void load_queries(const WgmmaShared<kHeadDim>& shared, const AttentionParams& p,
                                             const AttentionBlock& block, int group) {
    constexpr int kChunks = kHeadDim / 8;
    const int thread = static_cast<int>(threadIdx.x) % 128, chunk = thread % kChunks;
    for (int i = thread / kChunks; i < 64; i += 128 / kChunks) {
        const int row = group * 64 + i, all = block.row_block * WgmmaTile{kHeadDim}.rows() + row;
        const bool there = all < p.rows;
        const T* from =
            static_cast<const T*>(p.q) + block.row_offset(p, p.q_stride, there ? all : 0) + chunk * 8;
        kit::cp_async_16(shared.query(row, chunk), from, there);
    }
    kit::cp_async_commit();
    kit::cp_async_wait<0>();
    kit::fence_proxy_async();
    kit::named_barrier_sync(1 + static_cast<unsigned>(group), 128);
}

// A warpgroup over all tiles. The scores of a tile are issued together with the values of the one before, and
// weighed while those are multiplied; the warpgroups take turns in issuing, so that one weighs while the
// other's products run.
template <class T, int kHeadDim>
__device__ __forceinline__ void attend(WgmmaState<kHeadDim>& state, const WgmmaShared<kHeadDim>& shared,
                                       const AttentionParams& p, const AttentionBlock& block,
                                       const WgmmaTiles& tiles, int group) {
    constexpr WgmmaTile kTile{kHeadDim};
    const int row = block.row_block * kTile.rows() + group * 64, least = block.limit(p, row);
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

    const unsigned own_turn = 3 + static_cast<unsigned>(group), other_turn = 4 - static_cast<unsigned>(group);
    if (group == 1 && tiles.count > 1) kit::named_barrier_arrive(other_turn, 256);
    wait(shared.landed, 0);
    kit::wgmma_fence();
    issue_scores<T, kHeadDim>(s, queries, shared.slot(0));
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
        if (group == 0 || tile + 1 < tiles.count) kit::named_barrier_arrive(other_turn, 256);
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

// The blocks of a cluster have the same rows: warpgroup g of the other block hands over to block g. Through
// the ring, where no tile is on its way any more. Returns whether this warpgroup has the result.
template <int kHeadDim>
__device__ __forceinline__ bool merge_blocks(WgmmaState<kHeadDim>& state, const AttentionParams& p,
                                             char* ring, int split, int group) {
    constexpr int kOut = kHeadDim / 2;
    const int thread = static_cast<int>(threadIdx.x) % 128;
    float* here = reinterpret_cast<float*>(ring) + thread;
    kit::cluster_sync();
    if (split != group) {
        float* there = kit::cluster_map(here, static_cast<unsigned>(group));
#pragma unroll
        for (int i = 0; i < kOut; ++i) there[i * 128] = state.out[i];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            there[(kOut + 2 * h) * 128] = state.m[h];
            there[(kOut + 2 * h + 1) * 128] = state.l[h];
        }
    }
    kit::cluster_sync();
    if (split != group) return false;
    float keep[2], take[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const float other = here[(kOut + 2 * h) * 128], top = fmaxf(state.m[h], other);
        keep[h] = maximum_shift(state.m[h], top, p.scale_log2);
        take[h] = maximum_shift(other, top, p.scale_log2);
        state.m[h] = top;
        state.l[h] = state.l[h] * keep[h] + here[(kOut + 2 * h + 1) * 128] * take[h];
    }
#pragma unroll
    for (int i = 0; i < kOut; ++i) {
        const int h = i / 2 % 2;
        state.out[i] = state.out[i] * keep[h] + here[i * 128] * take[h];
    }
    return true;
}

// The finished rows of a warp, through shared memory (where its queries were) for whole 16-byte stores.
template <class T, int kHeadDim>
__device__ __forceinline__ void store_rows(const WgmmaState<kHeadDim>& state,
                                           const WgmmaShared<kHeadDim>& shared, const AttentionParams& p,
                                           const AttentionBlock& block, int group) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int block_row = block.row_block * WgmmaTile{kHeadDim}.rows();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int row = group * 64 + wgmma_row(h);
        const float l = state.l[h], inverse = l == 0.0f ? 0.0f : 1.0f / l;
#pragma unroll
        for (int i = 2 * h; i < kHeadDim / 2; i += 4) {
            *reinterpret_cast<uint32_t*>(shared.query(row, i / 4) + lane % 4 * 4) =
                pack_pair<T>(state.out[i] * inverse, state.out[i + 1] * inverse);
        }
        if (p.lse != nullptr && lane % 4 == 0 && block_row + row < p.rows) {
            p.lse[block.row_offset(p, p.lse_stride, block_row + row)] =
                (state.m[h] * p.scale_log2 + log2f(l)) * 0.693147180559945309f;
        }
    }
    __syncwarp();
    constexpr int kChunks = kHeadDim / 8;
    const int chunk = lane % kChunks, first = group * 64 + wgmma_row(0) - lane / 4;
    for (int row = first + lane / kChunks; row < first + 16 && block_row + row < p.rows;
         row += 32 / kChunks) {
        T* to = static_cast<T*>(p.out) + block.row_offset(p, p.out_stride, block_row + row) + chunk * 8;
        const auto values = kit::load_aligned<8>(reinterpret_cast<const T*>(shared.query(row, chunk)));
        kit::store_vector(to, values, 8, p.vector_out);
    }
}

// What:    out = softmax(scale q kᵀ) v, a tile of keys at a time, outputs rescaled as the maximum grows
// Mapping: a block has 128 rows: warpgroups 1 and 2 own 64 each, with their whole output in registers; of
//          warpgroup 0 one thread keeps a ring of tiles full, and one warp cleans values. The `splits` blocks
//          of a cluster have the same rows and divide the tiles
// Traffic: k and v once a cluster, from L2; bound by wgmma
// Needs:   head_dim == kHeadDim, 16-byte aligned rows, boxes of WgmmaTile in both maps, SM 9.0a
template <class T, int kHeadDim>
__global__ void __launch_bounds__(WgmmaTile::kThreads, 1)
    attention_wgmma(const AttentionParams p, const __grid_constant__ kit::TensorMap keys,
                    const __grid_constant__ kit::TensorMap values) {
    const WgmmaShared<kHeadDim> shared;
    shared.initialise();
    kit::dependency_wait();
    kit::dependents_launch();
    const AttentionBlock block(p);
    const WgmmaTiles tiles = tiles_of<kHeadDim>(p, block);
    if (threadIdx.x < 128) {
        kit::registers_release<24>();
        if (threadIdx.x == 0) load_tiles(shared, block, tiles, keys, values);
        if (threadIdx.x / 32 == 1 && (p.kv_lengths != nullptr || p.key_mask != nullptr)) {
            clean_values(shared, block, tiles,
                         p.key_mask == nullptr ? nullptr : p.key_mask + block.batch * p.mask_stride);
        }
        __syncwarp();
        if (p.splits > 1) {
            kit::cluster_sync();
            kit::cluster_sync();
        }
    } else {
        kit::registers_acquire<240>();
        const int group = static_cast<int>(threadIdx.x) / 128 - 1;
        WgmmaState<kHeadDim> state;
        clear(state);
        if (tiles.count > 0) {
            load_queries<T>(shared, p, block, group);
            attend<T>(state, shared, p, block, tiles, group);
        }
#pragma unroll
        for (float& l : state.l) {
            l += kit::shuffle_xor(l, 1);
            l += kit::shuffle_xor(l, 2);
        }
        const bool stores = p.splits == 1 || merge_blocks(state, p, shared.ring, block.split, group);
        if (stores) store_rows<T>(state, shared, p, block, group);
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
