// A transposed matrix, tiles in diagonal order.
//
// Idea        Blocks that run at the same time write tiles of one column of the output, a multiple of the row's bytes
//             apart: where that is a power of two, they crowd into few memory channels. Along a diagonal they spread
//             out.
// Change      07, with block b at column (b + row of tiles) mod tiles: any matrix, not only square ones.
// Prediction  Nothing on cards that hash addresses over channels, as all since 2010 do: a lesson of the past, kept to
//             be measured.
#include "ladder/transpose/turn.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void transpose(const float* x, float* out, std::int64_t rows, std::int64_t columns,
                          TileGrid tiles) {
    const std::int64_t first_row = blockIdx.x / tiles.across * kTile,
                       first_column = (blockIdx.x + blockIdx.x / tiles.across) % tiles.across * kTile;
    struct Tile {
        float at[kTile][kTile];
    };
    auto& tile = kit::block_shared<Tile>().at;
    const int lane = threadIdx.x;
    for (int k = threadIdx.y; k < kTile; k += blockDim.y) {
        const std::int64_t row = first_row + k, column = first_column + lane;
        if (row < rows && column < columns) tile[k][lane ^ k] = x[row * columns + column];
    }
    __syncthreads();
    for (int k = threadIdx.y; k < kTile; k += blockDim.y) {
        const std::int64_t column = first_column + k, row = first_row + lane;
        if (row < rows && column < columns) out[column * rows + row] = tile[lane][k ^ lane];
    }
}

const RegisterRung<Copy> kRung{
    +[](const Copy& op, const DeviceInfo&) { return decline_transpose(op); },
    +[](const Copy& op, Context& context) { launch_tiles(kRung.name(), transpose, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
