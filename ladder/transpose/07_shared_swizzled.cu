// A transposed matrix, swizzled in shared memory.
//
// Idea        Element [r][c] is kept at [r][c xor r]: a row is a permutation of its own banks, and so is a column. No
//             memory is spent, which is why the layouts of TMA and of tensor cores are swizzles, not paddings.
// Change      The padding is replaced by an exclusive or.
// Prediction  06's time, in 4096 bytes in place of 4224.
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
