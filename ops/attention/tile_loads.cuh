// Attention: tiles of keys and values that the copy engine brings.
//
// A ring of slots in shared memory takes them: items alternate, keys of a tile, then its values.
#pragma once

#include "kit/ptx/mbarrier.cuh"
#include "kit/ptx/tma.cuh"
#include "ops/attention/sequence.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// The ring, of tiles of this kind. Who uses an item releases its slot at `empty`.
template <auto kOfTile>
struct TileSlots {
    static constexpr auto kTile = kOfTile;
    char* ring;
    kit::Mbarrier *landed, *empty;  // one a slot

    __device__ char* slot(int item) const {
        constexpr auto kOwn = kOfTile;  // a static member has no address on a device
        return ring + kOwn.slot_offset(item % kOwn.slots());
    }
    __device__ static unsigned parity(int item) { return static_cast<unsigned>(item / kTile.slots()) & 1; }
    // Waits until `item` may be brought: nobody uses the one before it in its slot.
    __device__ void wait_empty(int item) const {
        if (item >= kTile.slots())
            kit::mbarrier_wait(&empty[item % kTile.slots()], parity(item - kTile.slots()));
    }
};

// The key tiles of a block of rows: every splits-th from its own on, of `keys` keys each.
struct KeyTiles {
    int count, first, step;
    int other_count;  // of the cluster's other block
    int before;       // tiles that went through the ring for other rows

    __device__ int key(int tile) const { return first + tile * step; }
    // Items of the ring.
    __device__ int keys_item(int tile) const { return 2 * (before + tile); }
    __device__ int values_item(int tile) const { return keys_item(tile) + 1; }
    __device__ int end_item() const { return keys_item(count); }
    // Whether there is any in this block or in the cluster's other, which both bring queries for both.
    __device__ bool any() const { return count + other_count > 0; }
};

// Of so many tiles in a row every splits-th, from the first on.
__device__ __forceinline__ int shared_tiles(const AttentionParams& p, int tiles) {
    return static_cast<int>(p.by_splits.quotient(static_cast<unsigned>(max(0, tiles) + p.splits - 1)));
}

// Those that hold what its rows may see.
__device__ __forceinline__ KeyTiles tiles_of(const AttentionParams& p, const AttentionBlock& block,
                                             const KeyBounds& bounds, int keys, int before) {
    const auto [first, all] = tiles_in(bounds, keys);
    const int count = shared_tiles(p, all - block.split);
    return {count, (first + block.split) * keys, p.splits * keys, p.clustered ? all - count : 0, before};
}

// One thread keeps the ring full.
template <auto kTile>
__device__ __forceinline__ void load_tiles(const TileSlots<kTile>& shared, const AttentionBlock& block,
                                           const KeyTiles& tiles, const kit::TensorMap& keys,
                                           const kit::TensorMap& values) {
    for (int item = tiles.keys_item(0); item < tiles.end_item(); ++item) {
        const int slot = item % kTile.slots(), key = tiles.key(item / 2 - tiles.before);
        const int boxes = item % 2 == 0 ? kTile.boxes() : kTile.value_boxes();
        shared.wait_empty(item);
        if constexpr (kTile.transposed_values()) {
            if (item % 2 != 0) {
                kit::mbarrier_arrive_expect(&shared.landed[slot], kTile.transposed_bytes());
                kit::tma_load<4>(shared.slot(item), values, &shared.landed[slot],
                                 {key, 0, block.kv_head, block.batch});
                continue;
            }
        }
        kit::mbarrier_arrive_expect(&shared.landed[slot], boxes * kTile.box_bytes());
        const kit::TensorMap& map = item % 2 == 0 ? keys : values;
        for (int box = 0; box < boxes; ++box) {
            kit::tma_load<4>(shared.slot(item) + box * kTile.box_bytes(), map, &shared.landed[slot],
                             {box * kTile.box_columns(), block.kv_head, block.first_key + key, block.batch});
        }
    }
}

// The same of keys in pages, by a whole warp: a lane brings the keys of one box, which are of one page, and looks the page of its
// next box up while this one's is on its way. What is no page is a place outside of the tensor, and comes as zeros.
template <auto kTile>
__device__ __forceinline__ void load_pages(const TileSlots<kTile>& shared, const AttentionParams& p,
                                           const AttentionBlock& block, const KeyTiles& tiles,
                                           const kit::TensorMap& keys, const kit::TensorMap& values) {
    const int lane = static_cast<int>(threadIdx.x) % 32, first = lane * p.page_keys;
    const std::int32_t* table = p.block_table + block.sequence * p.table_stride;
    const auto place = [&](int key) {
        return static_cast<int>(p.by_page_size.quotient(static_cast<unsigned>(key)));
    };
    const auto look_up = [&](int tile) {
        const int key = tiles.key(tile) + first;
        const int page =
            tile < tiles.count && first < kTile.keys() && key < block.keys ? table[place(key)] : -1;
        return page < p.pages ? page : -1;
    };
    int ahead = look_up(0);
    for (int tile = 0; tile < tiles.count; ++tile) {
        const int page = ahead, key = tiles.key(tile) + first;
        ahead = look_up(tile + 1);
        for (int item = tiles.keys_item(tile); item <= tiles.values_item(tile); ++item) {
            kit::Mbarrier* landed = &shared.landed[item % kTile.slots()];
            shared.wait_empty(item);
            if (lane == 0) kit::mbarrier_arrive_expect(landed, kTile.slot_bytes());
            __syncwarp();
            if (first >= kTile.keys()) continue;
            const kit::TensorMap& map = item == tiles.keys_item(tile) ? keys : values;
            for (int box = 0; box < kTile.boxes(); ++box) {
                kit::tma_load<4>(shared.slot(item) + box * kTile.box_bytes() + first * 128, map, landed,
                                 {box * kTile.box_columns(), block.kv_head, key - place(key) * p.page_size,
                                  max(page, -1)});
            }
        }
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
