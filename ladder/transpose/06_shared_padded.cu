// A transposed matrix, with rows of 33 in shared memory.
//
// Idea        One unused element behind each row moves the next by a bank: element [lane][k] lies in bank (33·lane +
//             k) mod 32, which is another for every lane.
// Change      05 with a padded tile: one number.
// Prediction  No bank conflicts (ncu: l1tex__data_bank_conflicts_pipe_lsu_mem_shared), and near to a copy's time.
#include "ladder/transpose/turn.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void transpose(const float* x, float* out, std::int64_t rows, std::int64_t columns,
                          TileGrid tiles) {
    const std::int64_t first_row = blockIdx.x / tiles.across * kTile,
                       first_column = blockIdx.x % tiles.across * kTile;
    struct Tile {
        float at[kTile][kTile + 1];
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
