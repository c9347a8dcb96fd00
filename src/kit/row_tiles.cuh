// How elementwise kernels share out rows: a grid of threads over tiles of vectors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "kit/launch.h"
#include "kit/target.h"
#include "kit/vector.cuh"
#include "weft/device_info.h"

namespace weft::inline WEFT_TARGET::kit {

// A block is `lanes` threads along a row (a power of two) by blockDim.x / lanes rows. Each thread takes a
// batch of vectors of its row, `lanes` vectors apart, so that its loads are independent and its warp's are
// contiguous.
struct RowTiles {
    std::int64_t rows = 0, dim = 0;
    unsigned vectors = 0;  // in a row, the last one perhaps in part
    int lanes_log2 = 0;
    unsigned threads = 32, column_blocks = 1, row_blocks = 1, layers = 1;  // row_blocks in each of the layers

    LaunchShape shape() const {
        return {.grid = dim3(column_blocks, row_blocks, layers), .block = dim3(threads), .dependent = true};
    }
    std::string describe() const {
        return "threads=" + std::to_string(threads) + " lanes=" + std::to_string(1 << lanes_log2) +
               " grid=" + std::to_string(column_blocks) + "x" + std::to_string(row_blocks) +
               (layers > 1 ? "x" + std::to_string(layers) : "");
    }
};

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Host: how many lanes share a row: at least a warp along a row that has as many vectors, more if every lane
// then has a full batch, fewer (down to 8, or to `least`) where the row's end would leave more of them idle.
inline int row_lanes_log2(std::int64_t vectors, int batch, unsigned threads, int least = 1) {
    int log2 = 0;
    while ((1u << log2) < threads && (1 << log2) < (log2 < 5 ? vectors : divide_up(vectors, batch))) ++log2;
    while (1 << log2 < least) ++log2;
    const auto padded = [&](int lanes_log2) {
        const std::int64_t tile = static_cast<std::int64_t>(batch) << lanes_log2;
        return divide_up(vectors, tile) * tile;
    };
    for (int fewer = log2 - 1; fewer >= 3 && 1 << fewer >= least; --fewer) {
        if (padded(fewer) * 17 < padded(log2) * 16) log2 = fewer;
    }
    return log2;
}

// Host: tiles for rows of `dim` elements in vectors of `width`, `batch` a thread. Blocks shrink until there
// is one for every multiprocessor; `max_blocks` bounds the grid, whose threads then loop. `least_lanes`: of a row, a
// power of two up to 32.
inline RowTiles tile_rows(std::int64_t rows, std::int64_t dim, int width, int batch, const DeviceInfo& device,
                          std::int64_t max_blocks = std::int64_t{1} << 30, int least_lanes = 1) {
    const std::int64_t vectors = std::max<std::int64_t>(1, divide_up(dim, width));
    RowTiles tiles{.rows = rows, .dim = dim, .vectors = static_cast<unsigned>(vectors)};
    for (unsigned threads = 256;; threads /= 2) {
        tiles.lanes_log2 = row_lanes_log2(vectors, batch, threads, least_lanes);
        tiles.threads = threads;
        const std::int64_t columns = divide_up(vectors, std::int64_t{batch} << tiles.lanes_log2);
        const std::int64_t tall = divide_up(rows, threads >> tiles.lanes_log2);
        if (threads > 64 && columns * tall < device.sms) continue;
        tiles.column_blocks = static_cast<unsigned>(std::clamp<std::int64_t>(columns, 1, max_blocks));
        const std::int64_t down =
            std::clamp<std::int64_t>(tall, 1, std::max<std::int64_t>(1, max_blocks / tiles.column_blocks));
        tiles.row_blocks = static_cast<unsigned>(std::min<std::int64_t>(down, 65535));
        tiles.layers = static_cast<unsigned>(
            std::min<std::int64_t>(divide_up(down, tiles.row_blocks), max_blocks > 65535 ? 65535 : 1));
        return tiles;
    }
}

// Host: the threads of `like` over as many rows of another length, a vector each: only the blocks side by side differ.
inline RowTiles tiles_like(const RowTiles& like, std::int64_t dim, int width) {
    RowTiles tiles = like;
    tiles.dim = dim;
    tiles.vectors = static_cast<unsigned>(divide_up(dim, width));
    tiles.column_blocks =
        static_cast<unsigned>(divide_up(tiles.vectors, std::int64_t{1} << tiles.lanes_log2));
    return tiles;
}

// Host: rows without gaps between them, in every operand, are one long row.
inline void fold_dense(std::int64_t& rows, std::int64_t& dim, std::initializer_list<std::int64_t> strides) {
    const bool dense = std::all_of(strides.begin(), strides.end(), [&](std::int64_t s) { return s == dim; });
    if (!dense && rows != 1) return;
    dim *= rows;
    rows = 1;
}

// The blocks side by side that share out a row's columns: all of the grid, or some of it.
struct ColumnBlocks {
    unsigned number, count;
    __device__ __forceinline__ static ColumnBlocks all() { return {blockIdx.x, gridDim.x}; }
};

// Calls body(row, column, step) for the thread's tiles: the batch's vectors begin at column, column + step,
// …, and may lie wholly or partly beyond the row's end.
template <int kWidth, int kBatch, class Body>
__device__ __forceinline__ void for_each_tile(const RowTiles& tiles, Body body,
                                              ColumnBlocks blocks = ColumnBlocks::all()) {
    const int lanes = 1 << tiles.lanes_log2, lane = static_cast<int>(threadIdx.x) & (lanes - 1);
    const std::int64_t step = lanes * kWidth;
    const std::int64_t rows_a_block = blockDim.x >> tiles.lanes_log2;
    const std::int64_t first_row =
        (blockIdx.z * gridDim.y + blockIdx.y) * rows_a_block + (threadIdx.x >> tiles.lanes_log2);
    const std::int64_t next_row = gridDim.z * gridDim.y * rows_a_block;
    const std::int64_t first_column = blocks.number * (step * kBatch) + lane * kWidth;
    for (std::int64_t row = first_row; row < tiles.rows; row += next_row) {
        for (std::int64_t column = first_column; column < tiles.dim;
             column += blocks.count * (step * kBatch)) {
            body(row, column, step);
        }
    }
}

// Calls body(row, column, dim) for the thread's vectors, one at a time and all threads of the block together: dim is 0
// for a thread that has no row.
template <int kWidth, class Body>
__device__ __forceinline__ void for_each_tile_together(const RowTiles& tiles, Body body) {
    const int lanes = 1 << tiles.lanes_log2, lane = static_cast<int>(threadIdx.x) & (lanes - 1);
    const std::int64_t step = lanes * kWidth, rows_a_block = blockDim.x >> tiles.lanes_log2;
    const std::int64_t first_row = (blockIdx.z * gridDim.y + blockIdx.y) * rows_a_block;
    for (std::int64_t top = first_row; top < tiles.rows; top += gridDim.z * gridDim.y * rows_a_block) {
        const std::int64_t row = top + (threadIdx.x >> tiles.lanes_log2),
                           dim = row < tiles.rows ? tiles.dim : 0;
        for (std::int64_t begin = blockIdx.x * step; begin < tiles.dim; begin += gridDim.x * step)
            body(row, begin + lane * kWidth, dim);
    }
}

// How many of a vector's N elements lie before the end: at most N, not positive where none does.
template <int N>
__device__ __forceinline__ int left(std::int64_t dim, std::int64_t column) {
    return static_cast<int>(dim - column < N ? dim - column : N);
}

// Whether all of a batch's vectors are whole: then one branch leads to loads that are all in flight together.
// A branch for each vector would let the compiler unpack, and so wait for, each before it issues the next.
template <int N, int kBatch>
__device__ __forceinline__ bool whole_batch(std::int64_t dim, std::int64_t column, std::int64_t step) {
    return column + (kBatch - 1) * step + N <= dim;
}
template <int N, int kBatch, class T>
__device__ __forceinline__ void load_whole(Vec<T, N> (&vectors)[kBatch], const T* row, std::int64_t column,
                                           std::int64_t step) {
#pragma unroll
    for (int b = 0; b < kBatch; ++b) vectors[b] = load_aligned<N>(row + column + b * step);
}
// The same for batches that reach beyond the row, or rows that are not aligned.
template <int N, int kBatch, class T>
__device__ __forceinline__ void load_parts(Vec<T, N> (&vectors)[kBatch], const T* row, std::int64_t dim,
                                           std::int64_t column, std::int64_t step, bool aligned) {
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
        vectors[b] = load_vector<N>(row + column + b * step, left<N>(dim, column + b * step), aligned);
    }
}
// A batch of one tensor.
template <int N, int kBatch, class T>
__device__ __forceinline__ void load_batch(Vec<T, N> (&vectors)[kBatch], const T* row, std::int64_t dim,
                                           std::int64_t column, std::int64_t step, bool aligned) {
    if (aligned && whole_batch<N, kBatch>(dim, column, step)) {
        load_whole(vectors, row, column, step);
    } else {
        load_parts(vectors, row, dim, column, step, aligned);
    }
}

}  // namespace weft::inline WEFT_TARGET::kit
