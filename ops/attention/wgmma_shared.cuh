// Attention on wgmma: shared memory of a block, and the tiles that go through it.
#pragma once

#include "kit/ptx/cluster.cuh"
#include "kit/ptx/mbarrier.cuh"
#include "kit/tensor_map.h"
#include "ops/attention/params.cuh"
#include "ops/attention/wgmma.h"

namespace weft::inline WEFT_TARGET {
namespace {

using attention::WgmmaTile;

// Whether some keys that a tile holds count for nobody.
__device__ __forceinline__ bool hides_values(const AttentionParams& p) {
    return p.kv_lengths != nullptr || p.key_mask != nullptr;
}

// The parts of a block's shared memory. Items of the ring alternate: keys of a tile, then its values. After the last
// come the sums of the cluster's other block.
template <int kHeadDim>
struct WgmmaShared {
    static constexpr WgmmaTile kTile{kHeadDim};
    char *queries, *ring;
    float4* handed_rows;                            // of rows r and r + 8: maximum and maximum, sum and sum
    kit::Mbarrier *landed, *empty;                  // one a slot
    kit::Mbarrier* cleaned;                         // as many, for the values of one tile after another
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
    __device__ void initialise(const AttentionParams& p) const {
        // Those who release a slot: the warps that compute, and the one that cleans, which may lag behind.
        const unsigned users = 4 * WgmmaTile::kWarpgroups + (hides_values(p) ? 1 : 0);
        if (threadIdx.x == 0) {
            kit::mbarrier_init(queries_landed, 1);
            kit::mbarrier_init(may_hand_over, 1);
            for (int slot = 0; slot < kTile.slots(); ++slot) {
                kit::mbarrier_init(&landed[slot], 1);
                kit::mbarrier_init(&cleaned[slot], 1);
                kit::mbarrier_init(&empty[slot], users);
            }
            kit::fence_mbarrier_init();
        }
        __syncthreads();
        if (p.splits > 1) kit::cluster_arrive();  // waited for where the other block is first met
    }
    __device__ char* slot(int item) const { return ring + item % kTile.slots() * kTile.slot_bytes(); }
    __device__ static unsigned parity(int item) { return static_cast<unsigned>(item / kTile.slots()) & 1; }
    // Waits until `item` may be brought: nobody uses the one before it in its slot.
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

template <int kHeadDim, bool kOptions>
__device__ __forceinline__ WgmmaTiles tiles_of(const AttentionParams& p, const AttentionBlock& block) {
    constexpr WgmmaTile kTile{kHeadDim};
    const KeyBounds bounds = key_bounds<kOptions>(p, block, block.row_block * p.block_rows, p.block_rows);
    const auto [first, all] = tiles_in(bounds, kTile.keys());
    const int second = all / 2, count = p.splits == 1 ? all : block.split == 0 ? all - second : second;
    return {count, (first + block.split) * kTile.keys(), p.splits * kTile.keys(), all - count};
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
