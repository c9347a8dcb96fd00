// scale_layout's kernel.
#pragma once

#include "kit/ptx/pdl.cuh"
#include "kit/vector.cuh"
#include "weft/narrow.h"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kThreads = 256;
inline constexpr int kWordsAcross = 8;  // of a warp: 32 bytes of a row; and 16 bytes of a tile, from 4 rows

// What     tiles of linear scales, zeros where a tile has more; or linear scales from tiles
// Mapping  a thread copies 4 scales of a row, which is a word of a tile; a warp takes 8 words of each of 4 rows 32 apart,
//          so that it touches whole sectors of rows and halves of sectors of tiles
// Traffic  each scale once each way: bound by the launch, for the scales of a tensor are a small part of it
// Needs    scales of one byte; `aligned`: tiles begin at a multiple of 4 bytes
template <bool kToTiles>
__global__ void __launch_bounds__(kThreads)
    scale_layout(GroupScales linear, GroupScales tiles, bool aligned) {
    kit::dependency_wait();
    kit::dependents_launch();
    const unsigned lane = threadIdx.x % 32;
    const std::int64_t group = (std::int64_t{blockIdx.x} * kWordsAcross + lane % kWordsAcross) * 4;
    if (group >= tiles.padded_groups) return;
    // A block's warps take 8 rows of the 32 that lie 32 apart from others of their tile.
    for (std::int64_t part = blockIdx.y; part * 32 < tiles.padded_rows; part += gridDim.y) {
        const std::int64_t row = part / 4 * 128 + part % 4 * 8 + threadIdx.x / 32 + lane / kWordsAcross * 32;
        auto* word = static_cast<std::uint8_t*>(tiles.data) + tiles.at(row, group);
        auto* bytes = static_cast<std::uint8_t*>(linear.data) + linear.at(row, group);
        const std::int64_t there = row < linear.rows ? linear.groups - group : 0;
        kit::Vec<std::uint8_t, 4> scales{};
        if constexpr (!kToTiles) scales = kit::load_vector<4>(word, 4, aligned);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i >= there) continue;
            std::uint8_t& scale = bytes[i * linear.group_stride];
            (kToTiles ? scales[i] : scale) = kToTiles ? scale : scales[i];
        }
        if constexpr (kToTiles) kit::store_vector(word, scales, 4, aligned);
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
