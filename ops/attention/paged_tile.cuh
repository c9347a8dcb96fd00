// Attention: tiles of keys and values out of a cache in pages.
#pragma once

#include "kit/convert.cuh"
#include "kit/ptx/cp_async.cuh"
#include "kit/ptx/shuffle.cuh"
#include "kit/vector.cuh"
#include "ops/attention/params.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// The pages of a tile's keys. Lane l of every warp knows those of keys l and l + 32, and of the next tile's: an entry of the
// table is on its way while the tile before is loaded.
class TilePages {
   public:
    // Goes on to the tile that was ahead, and looks `key`'s up.
    __device__ void look_ahead(const AttentionParams& p, const std::int32_t* table, int key, int keys) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int own = key + own_row(h);
            now_[h] = ahead_[h];
            ahead_[h] = own < keys ? table[p.by_page_size.quotient(static_cast<unsigned>(own))] : -1;
        }
    }
    // Brings the tile that begins at `key`, zeros where there is no key or no page. As load_tile, but for where a row is,
    // which the lane that knows it says.
    template <int kHeadDim, class T>
    __device__ __forceinline__ void load(T* tile, const AttentionParams& p, int thread, int threads,
                                         const T* from, const AttentionStrides& stride, int key,
                                         bool vector) const {
        constexpr Tile kTile{kHeadDim};
        constexpr int kLanes = kHeadDim <= 64 ? 8 : kHeadDim <= 128 ? 16 : 32;  // a row
        const std::int64_t own[] = {offset(p, stride, key, 0), offset(p, stride, key, 1)};
        const int chunk = thread % kLanes, column = chunk * 8, count = min(p.head_dim - column, 8);
        const int step = threads / kLanes;
        for (int first = thread / kLanes; first < kKeys; first += 4 * step) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {  // a tile is at least four passes high
                const int row = first + i * step;
                const std::int64_t at =
                    kit::shuffle(row < 32 ? own[0] : own[1], row % 32);  // a pass has one half
                if (chunk >= kTile.chunks()) continue;
                const bool there = at >= 0 && count > 0;
                T* to = tile + kTile.offset(row, chunk);
                const T* source = there ? from + at + column : from;
                if (vector) {
                    kit::cp_async_16(to, source, there);
                } else {
                    kit::store_aligned(
                        to, kit::load_elements<8>(source, there ? count : 0, kit::from_float<T>(0.0f)));
                }
            }
        }
    }

   private:
    __device__ static int own_row(int half) { return static_cast<int>(threadIdx.x % 32) + half * 32; }
    // Of a lane's own key; negative where it has no page.
    __device__ std::int64_t offset(const AttentionParams& p, const AttentionStrides& stride, int key,
                                   int half) const {
        const int page = now_[half], own = key + own_row(half);
        if (page < 0 || page >= p.pages) return -1;
        const int before =
            static_cast<int>(p.by_page_size.quotient(static_cast<unsigned>(own))) * p.page_size;
        return page * stride.batch + (own - before) * stride.token;
    }

    int now_[2], ahead_[2] = {-1, -1};
};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
