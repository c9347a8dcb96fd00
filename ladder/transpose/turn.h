// What the rungs of this topic share. A transposition is a copy between views: the matrix lies in memory as `rows` rows
// of `columns`, x is its view with the axes exchanged (strides 1 and columns), and out is dense: [columns, rows].
#pragma once

#include "ladder/rung.h"
#include "ops/copy/copy.h"

namespace weft::inline WEFT_TARGET {

inline constexpr int kTile = 32;  // rows and columns of a tile: a warp's lanes

inline const char* decline_transpose(const Copy& op) {
    if (!op.x) return "fills nothing";
    if (op.out.rank != 2 || !is_dense(op.out, DType::fp32) || op.x.dtype != DType::fp32)
        return "takes matrices of fp32";
    if (op.x.stride[0] != 1 || op.x.stride[1] != op.x.dim(0))
        return "takes the transposed view of a dense matrix";
    return nullptr;
}

// An element a thread, in blocks of 256 along the elements.
inline void launch_line(const char* name, void (*kernel)(const float*, float*, std::int64_t, std::int64_t),
                        const Copy& op, Context& context, int width = 1) {
    kit::launch(name, kernel, {.grid = blocks_for(divide_up(op.out.numel(), width), 256), .block = 256},
                context.stream(), op.x.as<const float>(), op.out.as<float>(), op.out.dim(1), op.out.dim(0));
}

// A tile of 32 by 32 elements a block. Tiles are numbered along one axis: the other two of a grid end at 65535 blocks.
struct TileGrid {
    std::int64_t across;  // tiles in a row of tiles
};
inline void launch_tiles(const char* name,
                         void (*kernel)(const float*, float*, std::int64_t, std::int64_t, TileGrid),
                         const Copy& op, Context& context, dim3 block = dim3(kTile, 8)) {
    const std::int64_t rows = op.out.dim(1), columns = op.out.dim(0);
    const TileGrid tiles{divide_up(columns, kTile)};
    kit::launch(name, kernel,
                {.grid = dim3(static_cast<unsigned>(tiles.across * divide_up(rows, kTile))), .block = block},
                context.stream(), op.x.as<const float>(), op.out.as<float>(), rows, columns, tiles);
}

}  // namespace weft::inline WEFT_TARGET
