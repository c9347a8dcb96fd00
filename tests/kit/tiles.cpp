// Grids of more blocks than an axis has: kit/elementwise.cuh's walks over tiles, each vector once by one thread.
#include "../emulator/support.h"

#include <algorithm>
#include <vector>

#include "kit/affine.cuh"
#include "kit/elementwise.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using test::Emulator;

enum class Walk { loop, together, any, known, batches, pieces };

template <Walk kWalk, int kBatch>
__global__ void count_vectors(kit::RowTiles tiles, int* counts, std::int64_t width) {
    const auto count = [&](std::int64_t row, std::int64_t column) {
        if (row < tiles.rows && column < tiles.dim) ++counts[row * width + column / 8];
    };
    if constexpr (kWalk == Walk::loop) {
        kit::for_each_tile<8, 2>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t step) {
            for (int b = 0; b < 2; ++b) count(row, column + b * step);
        });
    } else if constexpr (kWalk == Walk::together) {
        kit::for_each_tile_together<8>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t dim) {
            if (dim > 0) count(row, column);
        });
    } else if constexpr (kWalk == Walk::any) {
        kit::for_each_vector<8, kit::Any>(tiles,
                                          [&](const kit::PartVector& at) { count(at.row, at.column); });
    } else if constexpr (kWalk == Walk::known) {
        kit::for_each_vector<8, float>(
            tiles, [&](const kit::WholeVector& at) { count(at.row, std::int64_t{at.vector} * 8); });
    } else {  // of pieces of two elements, those that begin a vector
        constexpr int kPiece = kWalk == Walk::batches ? 8 : 2;
        const kit::WholeVector first = kit::first_of_batch<kPiece, kBatch>(tiles);
        for (unsigned b = 0; b < kBatch * 8 / kPiece; ++b) {
            const std::int64_t column = std::int64_t{first.vector + b * kit::affine_squad(kPiece)} * kPiece;
            if (column % 8 == 0) count(first.row, column);
        }
    }
}

// Rows in three layers of two blocks, with a row that the last block lacks; a thread's vectors one or two at a time.
template <Walk kWalk, int kBatch = 1>
void expect_each_once(int lanes_log2 = 2) {
    const std::int64_t rows = 3 * 2 * (32 >> lanes_log2) - 1, vectors = kBatch << lanes_log2;
    const kit::RowTiles tiles{.rows = rows,
                              .dim = vectors * 8,
                              .vectors = static_cast<unsigned>(vectors),
                              .lanes_log2 = lanes_log2,
                              .threads = 32,
                              .column_blocks = 1,
                              .row_blocks = 2,
                              .layers = 3};
    std::vector<int> counts(static_cast<std::size_t>(rows * vectors));
    kit::LaunchShape shape = tiles.shape();
    shape.dependent = kWalk == Walk::any || kWalk == Walk::known;
    kit::launch("count_vectors", count_vectors<kWalk, kBatch>, shape, Stream{}, tiles, counts.data(),
                vectors);
    EXPECT_EQ(std::count(counts.begin(), counts.end(), 1), rows * vectors) << static_cast<int>(kWalk);
}

TEST_F(Emulator, TilesInLayersAreWalkedOnceEach) {
    expect_each_once<Walk::loop, 2>();
    expect_each_once<Walk::together>();
    expect_each_once<Walk::any>();
    expect_each_once<Walk::known>();
    expect_each_once<Walk::batches, kit::kMixedBatch>(3);  // a squad
    expect_each_once<Walk::pieces, kit::kMixedBatch>(4);   // two
    expect_each_once<Walk::batches, 1>(3);
    expect_each_once<Walk::pieces, 1>(4);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
