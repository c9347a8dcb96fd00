// A transposed matrix, in tiles, still element by element.
//
// Idea        A block has a tile of 32 by 32: what a warp's scattered reads fetch in vain, the block's next warps use
//             a moment later, while it is still in L1.
// Change      02 with a tile a block in place of a run of elements; no division for each element either.
// Prediction  Faster than 02 wherever the matrix is wider than what L1 holds.
#include "ladder/transpose/turn.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void transpose(const float* x, float* out, std::int64_t rows, std::int64_t columns,
                          TileGrid tiles) {
    const std::int64_t first_row = blockIdx.x / tiles.across * kTile,
                       first_column = blockIdx.x % tiles.across * kTile;
    const std::int64_t row = first_row + threadIdx.x;
    for (int k = threadIdx.y; k < kTile; k += blockDim.y) {
        const std::int64_t column = first_column + k;
        if (row < rows && column < columns) out[column * rows + row] = x[row * columns + column];
    }
}

const RegisterRung<Copy> kRung{
    +[](const Copy& op, const DeviceInfo&) { return decline_transpose(op); },
    +[](const Copy& op, Context& context) { launch_tiles(kRung.name(), transpose, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
