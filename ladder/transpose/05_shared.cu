// A transposed matrix through shared memory.
//
// Idea        A tile is read along rows into shared memory and written from there along columns: both sides of global
//             memory are coalesced, and the scattered side is in memory that has no lines.
// Change      The tile is kept between the read and the write.
// Prediction  Much faster than 04, but the reads of a column of the tile hit one bank: shared memory has 32 banks of 4
//             bytes, and element [lane][k] of rows of 32 lies in bank k for all lanes, which are then served one by
//             one.
#include "ladder/transpose/turn.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void transpose(const float* x, float* out, std::int64_t rows, std::int64_t columns,
                          TileGrid tiles) {
    const std::int64_t first_row = blockIdx.x / tiles.across * kTile,
                       first_column = blockIdx.x % tiles.across * kTile;
    struct Tile {
        float at[kTile][kTile];
    };
    auto& tile = kit::block_shared<Tile>().at;
    const int lane = threadIdx.x;
    for (int k = threadIdx.y; k < kTile; k += blockDim.y) {
        const std::int64_t row = first_row + k, column = first_column + lane;
        if (row < rows && column < columns) tile[k][lane] = x[row * columns + column];
    }
    __syncthreads();
    for (int k = threadIdx.y; k < kTile; k += blockDim.y) {
        const std::int64_t column = first_column + k, row = first_row + lane;
        if (row < rows && column < columns) out[column * rows + row] = tile[lane][k];
    }
}

const RegisterRung<Copy> kRung{
    +[](const Copy& op, const DeviceInfo&) { return decline_transpose(op); },
    +[](const Copy& op, Context& context) { launch_tiles(kRung.name(), transpose, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
