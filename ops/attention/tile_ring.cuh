// Attention: tiles of keys and values on their way into shared memory.
#pragma once

#include "kit/convert.cuh"
#include "kit/ptx/barrier.cuh"
#include "kit/ptx/cp_async.cuh"
#include "kit/vector.cuh"
#include "ops/attention/paged_tile.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// Brings rows of `from` into a shared tile: `from` + offset_of(row), zeros where that is negative and beyond
// head_dim.
template <int kHeadDim, class T, class OffsetOf>
__device__ __forceinline__ void load_rows(T* tile, int rows, int thread, int threads, const T* from,
                                          int head_dim, bool vector, OffsetOf offset_of) {
    constexpr Tile kTile{kHeadDim};
    constexpr int kLanes = kHeadDim <= 64 ? 8 : kHeadDim <= 128 ? 16 : 32;  // a row
    const int chunk = thread % kLanes, column = chunk * 8;
    if (chunk >= kTile.chunks()) return;
    for (int row = thread / kLanes; row < rows; row += threads / kLanes) {
        const std::int64_t offset = offset_of(row);
        const int count = offset < 0 ? 0 : min(head_dim - column, 8);
        const T* source = count > 0 ? from + offset + column : from;
        T* to = tile + kTile.offset(row, chunk);
        if (vector) {
            kit::cp_async_16(to, source, count > 0);
        } else {
            kit::store_aligned(to, kit::load_elements<8>(source, count, kit::from_float<T>(0.0f)));
        }
    }
}

// Brings a tile of keys or values: `there` rows from `from` on, `stride` elements apart, zeros behind them,
// beyond head_dim and where the mask (of the tile's keys, or null) hides a row. As load_rows, but the loop
// that runs for every tile has no more in it than it needs: it would otherwise cost as many instructions as
// the products.
template <int kHeadDim, class T>
__device__ __forceinline__ void load_tile(T* tile, int thread, int threads, const T* from,
                                          std::int64_t stride, int there, const std::uint8_t* mask,
                                          int head_dim, bool vector) {
    constexpr Tile kTile{kHeadDim};
    constexpr int kLanes = kHeadDim <= 64 ? 8 : kHeadDim <= 128 ? 16 : 32;  // a row
    const int chunk = thread % kLanes, column = chunk * 8, count = min(head_dim - column, 8);
    if (chunk >= kTile.chunks()) return;
    if (count <= 0) there = 0;
    const int step = threads / kLanes;
    const T* source = from + thread / kLanes * stride + column;
    if (vector && mask == nullptr) {
        for (int first = thread / kLanes; first < kKeys; first += 4 * step) {
#pragma unroll
            for (int i = 0; i < 4; ++i, source += step * stride) {  // a tile is at least four passes high
                const int row = first + i * step;
                kit::cp_async_16(tile + kTile.offset(row, chunk), row < there ? source : from, row < there);
            }
        }
        return;
    }
    for (int row = thread / kLanes; row < kKeys; row += step, source += step * stride) {
        const bool seen = row < there && (mask == nullptr || mask[row] != 0);
        T* to = tile + kTile.offset(row, chunk);
        if (vector) {
            kit::cp_async_16(to, seen ? source : from, seen);
        } else {
            kit::store_aligned(
                to, kit::load_elements<8>(seen ? source : from, seen ? count : 0, kit::from_float<T>(0.0f)));
        }
    }
}

// A group's stream of tiles: keys, values, keys, values, ..., `slots` - 1 of them on their way.
template <class T, int kHeadDim, bool kRagged>
class TileRing {
   public:
    // `first`: the group's first tile.
    __device__ TileRing(const AttentionParams& p, const AttentionBlock& block, T* memory, int group,
                        int first, int tiles)
        : p_(p),
          memory_(memory),
          group_(group),
          threads_(32 * p.row_warps),
          thread_(threadIdx.x % threads_),
          keys_(block.keys),
          first_(first),
          items_(2 * tiles) {
        k_ = static_cast<const T*>(p.k), v_ = static_cast<const T*>(p.v);
        if (kRagged && p.block_table != nullptr) {
            k_ += block.kv_head * p.k_stride.head, v_ += block.kv_head * p.v_stride.head;
            table_ = p.block_table + block.sequence * p.table_stride;
            pages_.look_ahead(p, table_, first_key(0), keys_);
        } else {
            k_ += block.key_offset(p.k_stride), v_ += block.key_offset(p.v_stride);
        }
        mask_ = p.key_mask == nullptr ? nullptr : p.key_mask + block.batch * p.mask_stride;
        for (int i = 0; i + 1 < p.slots; ++i) issue();
    }
    __device__ int first_key(int tile) const { return (first_ + tile * p_.groups * p_.splits) * kKeys; }
    __device__ const std::uint8_t* mask() const { return mask_; }

    // The next tile, for reading until the next call.
    __device__ const T* next() {
        if (p_.slots == kTile.slots()) {
            kit::cp_async_wait<kTile.slots() - 2>();
        } else {
            kit::cp_async_wait<0>();
        }
        kit::named_barrier_sync(1 + group_,
                                threads_);  // landed for all; and all have done with the slot filled next
        const T* tile = memory_ + read_ * kTile.slot();
        read_ = read_ + 1 == p_.slots ? 0 : read_ + 1;
        issue();
        return tile;
    }

   private:
    static constexpr Tile kTile{kHeadDim};

    __device__ void issue() {
        if (issued_ < items_) {
            const bool values = issued_ % 2 != 0;
            if (kRagged && p_.block_table != nullptr) {
                issue_paged(values);
            } else {
                issue_tile(values);
            }
        }
        kit::cp_async_commit();
        ++issued_;
        write_ = write_ + 1 == p_.slots ? 0 : write_ + 1;
    }

    __device__ __forceinline__ void issue_tile(bool values) {
        const int key = first_key(issued_ / 2);
        const T* base = values ? v_ : k_;
        const std::int64_t stride = values ? p_.v_stride.token : p_.k_stride.token;
        load_tile<kHeadDim>(memory_ + write_ * kTile.slot(), thread_, threads_, base + key * stride, stride,
                            keys_ - key, mask_ == nullptr ? nullptr : mask_ + key, p_.head_dim,
                            values ? p_.vector_v : p_.vector_k);
    }
    __device__ __forceinline__ void issue_paged(bool values) {
        const int tile = issued_ / 2;
        if (!values) pages_.look_ahead(p_, table_, first_key(tile + 1), keys_);
        pages_.template load<kHeadDim>(memory_ + write_ * kTile.slot(), p_, thread_, threads_,
                                       values ? v_ : k_, values ? p_.v_stride : p_.k_stride, first_key(tile),
                                       values ? p_.vector_v : p_.vector_k);
    }

    const AttentionParams& p_;
    T* memory_;
    const T *k_, *v_;
    const std::uint8_t* mask_;
    const std::int32_t* table_ = nullptr;
    TilePages pages_;
    int group_, threads_, thread_, keys_, first_, items_, issued_ = 0, read_ = 0, write_ = 0;
};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
