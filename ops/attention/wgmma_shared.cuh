// Attention on wgmma: shared memory of a block, and the tiles that go through it.
#pragma once

#include "kit/ptx/cluster.cuh"
#include "kit/ptx/elect.cuh"
#include "kit/ptx/proxy_fence.cuh"
#include "kit/tensor_map.h"
#include "ops/attention/tile_loads.cuh"
#include "ops/attention/wgmma.h"

namespace weft::inline WEFT_TARGET {
namespace {

using attention::WgmmaTile;

template <int kWarpgroups>
inline constexpr int kWgmmaThreads = WgmmaTile{0, kWarpgroups}.threads();

// Whether some keys that a tile holds count for nobody.
__device__ __forceinline__ bool hides_values(const AttentionParams& p) { return p.hides_values; }

// The parts of a block's shared memory. Items of the ring alternate: keys of a tile, then its values. After the last
// come the sums of the cluster's other block.
template <WgmmaTile kTile>
struct WgmmaShared : TileSlots<kTile> {
    using TileSlots<kTile>::ring, TileSlots<kTile>::landed, TileSlots<kTile>::empty;
    char* queries;
    float4* handed_rows;                           // of rows r and r + 8: maximum and maximum, sum and sum
    kit::Mbarrier* cleaned;                        // one a slot, for the values of one tile after another
    kit::Mbarrier *queries_landed, *queries_free;  // one a buffer of queries
    kit::Mbarrier* may_hand_over;                  // the other block has room

    __device__ WgmmaShared() {
        queries = kit::align_shared<1024>(kit::dynamic_shared<char>());
        ring = queries + kTile.query_buffers() * kTile.query_bytes();
        handed_rows = reinterpret_cast<float4*>(ring + kTile.ring_bytes());
        landed = reinterpret_cast<kit::Mbarrier*>(handed_rows) + WgmmaTile::kHandedRowBytes / 8;
        cleaned = landed + kTile.slots();
        empty = cleaned + kTile.slots();
        queries_landed = empty + kTile.slots();
        queries_free = queries_landed + kTile.query_buffers();
        may_hand_over = queries_free + kTile.query_buffers();
    }
    __device__ void initialise(const AttentionParams& p) const {
        // Those who release a slot: the warps that compute, and the one that cleans, which may lag behind.
        constexpr unsigned kWarps = 4 * kTile.warpgroups;
        const unsigned users = kWarps + (hides_values(p) ? 1 : 0);
        if (threadIdx.x == 0) {
            for (int buffer = 0; buffer < kTile.query_buffers(); ++buffer) {
                kit::mbarrier_init(&queries_landed[buffer], 1);
                kit::mbarrier_init(&queries_free[buffer], kWarps);
            }
            kit::mbarrier_init(may_hand_over, 1);
            for (int slot = 0; slot < kTile.slots(); ++slot) {
                kit::mbarrier_init(&landed[slot], 1);
                kit::mbarrier_init(&cleaned[slot], 1);
                kit::mbarrier_init(&empty[slot], users);
            }
            kit::fence_mbarrier_init();
        }
        __syncthreads();
        if (p.clustered) kit::cluster_arrive();  // waited for where the other block is first met
    }
    // The same for the queries of the n-th block of rows.
    __device__ char* queries_of(int n) const {
        return queries + n % kTile.query_buffers() * kTile.query_bytes();
    }
    __device__ static unsigned queries_parity(int n) {
        return static_cast<unsigned>(n / kTile.query_buffers()) & 1;
    }
    __device__ void wait_queries_free(int n) const {
        constexpr int kBuffers = kTile.query_buffers();
        if (n >= kBuffers) kit::mbarrier_wait(&queries_free[n % kBuffers], queries_parity(n - kBuffers));
    }
    __device__ void wait_queries(int n) const {
        kit::mbarrier_wait(&queries_landed[n % kTile.query_buffers()], queries_parity(n));
    }
    // By each warp that computes, when all scores of its rows are there.
    __device__ void free_queries(int n) const {
        __syncwarp();  // nor may any lane still wait for them
        if (threadIdx.x % 32 == 0) kit::mbarrier_arrive(&queries_free[n % kTile.query_buffers()]);
    }
};

// body(block of rows, its tiles, how many blocks of rows came before it), for those of this block of the grid: there are no
// more of these than multiprocessors, so that the ring is filled for the next rows while the last are stored. They are dealt
// forwards and backwards in turn, and the next p.dealt_blocks of them the other way round: with the longest rows first
// nobody always gets the longer ones, nor, where they do not go round, always one less.
template <WgmmaTile kTile, bool kOptions, bool kRagged, class Body>
__device__ __forceinline__ void for_each_block(const AttentionParams& p, Body&& body) {
    int before = 0, n = 0;
    unsigned first = 0, dealt = 0;  // of these, and how many of these are dealt
    bool backwards = false, begins_backwards = false;
    while (first < p.blocks) {
        const unsigned inside = dealt + (backwards ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
        const unsigned index = first + inside;
        const bool none = inside >= p.dealt_blocks || index >= p.blocks;
        dealt += gridDim.x, backwards = !backwards;
        if (dealt >= p.dealt_blocks) {
            first += p.dealt_blocks, dealt = 0;
            backwards = begins_backwards = !begins_backwards;
        }
        if (none) continue;
        AttentionBlock block(p, index);
        if constexpr (kRagged) {
            read_sequence(block, p);
            for (int* known : {&block.rows, &block.q_tokens, &block.first_query, &block.first_key})
                *known = kit::warp_uniform(*known);
            if (block.row_block * p.block_rows >= block.rows) continue;  // a place more than it has rows for
        } else {
            block.read_length(p);
        }
        KeyTiles tiles =
            tiles_of(p, block, key_bounds<kOptions>(p, block, block.row_block * p.block_rows, p.block_rows),
                     kTile.keys(), before);
        for (int* known : {&block.row_block, &block.kv_head, &block.batch, &block.keys, &tiles.count,
                           &tiles.first, &tiles.other_count}) {
            *known = kit::warp_uniform(*known);
        }
        body(block, tiles, n);
        before += tiles.count, ++n;
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
