// Attention of wide rows: the stream of keys and values into shared memory, 128 columns of a tile's rows at a time.
#pragma once

#include "kit/ptx/barrier.cuh"
#include "kit/ptx/cp_async.cuh"
#include "kit/vector.cuh"
#include "ops/attention/params.cuh"
#include "ops/attention/wide.h"

namespace weft::inline WEFT_TARGET {
namespace {

using attention::WideTile;

// Items of a tile, one after the other: its keys, 128 columns at a time, then its values. Stored: T, or the byte of a code.
// Eight rows at one chunk of 16 bytes fall into eight different bank groups, by an exclusive or.
template <class Stored>
class WideRing {
   public:
    static constexpr int kVector = 16 / static_cast<int>(sizeof(Stored));  // elements of a chunk
    static constexpr int kRowChunks = WideTile::kChunk / kVector;
    static constexpr int kStep = WideTile::kThreads / kRowChunks;  // rows that all threads bring at once
    static_assert(kStep % 8 == 0);
    static constexpr int kRows = kKeys / kStep;  // of a thread

    __device__ static int offset(int row, int chunk) {  // in elements of an item
        return row * WideTile::kChunk + (chunk ^ (row & 7)) * kVector;
    }

    // `first`: the block's first tile; it takes every p.splits-th of `tiles`.
    __device__ WideRing(const AttentionParams& p, const AttentionBlock& block, Stored* memory, int first,
                        int tiles)
        : p_(p), memory_(memory), keys_(block.keys), first_(first), tiles_(tiles), mask_(block.mask(p)) {
        k_ = static_cast<const Stored*>(p.k), v_ = static_cast<const Stored*>(p.v);
        if (p.block_table != nullptr) {
            k_ += block.kv_head * p.k_stride.head, v_ += block.kv_head * p.v_stride.head;
            table_ = p.block_table + block.sequence * p.table_stride;
        } else {
            k_ += block.key_offset(p.k_stride), v_ += block.key_offset(p.v_stride);
        }
        key_items_ = chunks(p.head_dim), items_ = key_items_ + chunks(p.v_dim);
        look_ahead(0);
        for (int i = 0; i + 1 < p.slots; ++i) issue();
    }
    __device__ static int chunks(int columns) { return (columns + WideTile::kChunk - 1) / WideTile::kChunk; }
    __device__ int first_key(int tile) const { return (first_ + tile * p_.splits) * kKeys; }

    // The next item, for reading until the next call.
    __device__ const Stored* next() {
        switch (p_.slots) {
            case 8: kit::cp_async_wait<6>(); break;
            case 5: kit::cp_async_wait<3>(); break;
            case 3: kit::cp_async_wait<1>(); break;
            default: kit::cp_async_wait<0>();
        }
        __syncthreads();  // landed for all; and all have done with the slot filled next
        const Stored* item = memory_ + read_ * kItem;
        read_ = read_ + 1 == p_.slots ? 0 : read_ + 1;
        issue();
        return item;
    }

   private:
    static constexpr int kItem = kKeys * WideTile::kChunk;

    __device__ static int own_row(int i) { return static_cast<int>(threadIdx.x) / kRowChunks + i * kStep; }

    // Where this thread's rows of a tile are: of which page (0 where there are none), or -1 for none. Entries of the table
    // are on their way while the tile before is loaded.
    __device__ void look_ahead(int tile) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            const int key = first_key(tile) + own_row(i);
            const bool there = tile < tiles_ && key < keys_ && (mask_ == nullptr || mask_[key] != 0);
            ahead_[i] = !there ? -1 : table_ == nullptr ? 0 : table_[page_of(key)];
        }
    }
    __device__ int page_of(int key) const {
        return static_cast<int>(p_.by_page_size.quotient(static_cast<unsigned>(key)));
    }

    __device__ void issue() {
        if (tile_ < tiles_) {
            if (item_ == 0) {
#pragma unroll
                for (int i = 0; i < kRows; ++i) page_[i] = ahead_[i];
                look_ahead(tile_ + 1);
            }
            bring();
            if (++item_ == items_) item_ = 0, ++tile_;
        }
        kit::cp_async_commit();
        write_ = write_ + 1 == p_.slots ? 0 : write_ + 1;
    }

    // The next item's columns of this thread's rows: zeros where there is no row, and beyond the last column.
    __device__ __forceinline__ void bring() {
        const bool values = item_ >= key_items_;
        const Stored* from = values ? v_ : k_;
        const std::int64_t batch = values ? p_.v_stride.batch : p_.k_stride.batch;
        const std::int64_t token = values ? p_.v_stride.token : p_.k_stride.token;
        const int chunk = static_cast<int>(threadIdx.x) % kRowChunks;
        const int column = (values ? item_ - key_items_ : item_) * WideTile::kChunk + chunk * kVector;
        const int count = min((values ? p_.v_dim : p_.head_dim) - column, kVector);
        // Where a row's columns are: of keys in one piece a step behind the row before.
        const Stored* first = from + (first_key(tile_) + own_row(0)) * token + column;
        const auto source = [&](int i) -> const Stored* {
            if (page_[i] < 0 || count <= 0) return nullptr;
            if (table_ == nullptr) return first + i * kStep * token;
            if (page_[i] >= p_.pages) return nullptr;
            const int key = first_key(tile_) + own_row(i);
            return from + page_[i] * batch + (key - page_of(key) * p_.page_size) * token + column;
        };
        Stored* to = memory_ + write_ * kItem +
                     offset(own_row(0), chunk);  // whole eights of rows further on it is alike
        if (values ? p_.vector_v : p_.vector_k) {
#pragma unroll
            for (int i = 0; i < kRows; ++i) {
                const Stored* at = source(i);
                kit::cp_async_16(to + i * kStep * WideTile::kChunk, at == nullptr ? from : at, at != nullptr);
            }
            return;
        }
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            const Stored* at = source(i);
#pragma unroll 1
            for (int e = 0; e < kVector; ++e)
                to[i * kStep * WideTile::kChunk + e] = at != nullptr && e < count ? at[e] : Stored{};
        }
    }

    const AttentionParams& p_;
    Stored* memory_;
    const Stored *k_, *v_;
    const std::int32_t* table_ = nullptr;
    int keys_, first_, tiles_, key_items_, items_;
    const std::uint8_t* mask_;
    int page_[kRows], ahead_[kRows];
    int tile_ = 0, item_ = 0, read_ = 0, write_ = 0;
};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
