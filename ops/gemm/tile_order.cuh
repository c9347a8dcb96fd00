// In which order the tiles of out are computed.
#pragma once

#include "kit/target.h"

namespace weft::inline WEFT_TARGET {
namespace {

// A tile's indices along m and n.
struct TileIndex {
    int row, column;
};

// Tiles go down `group` rows of tiles at a time, so that those that are computed together share their panels
// of b in L2, and of a as well.
__device__ __forceinline__ TileIndex tile_index(int tile, int row_tiles, int column_tiles, int group) {
    const int first = tile / (group * column_tiles) * group, inside = tile % (group * column_tiles);
    const int height = min(group, row_tiles - first);
    return {first + inside % height, inside / height};
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
