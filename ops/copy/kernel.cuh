// copy's kernels.
#pragma once

#include "kit/axis_walk.cuh"
#include "kit/elementwise.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// Axes that are not walked by neighbouring threads: where their number n begins in both arrays.
struct Walk {
    kit::AxisWalk axes;
    std::int64_t x[kit::AxisWalk::kMost] = {}, out[kit::AxisWalk::kMost] = {};

    __device__ __forceinline__ void find(std::int64_t n, std::int64_t& from, std::int64_t& to) const {
        axes.each(n, [&](int axis, std::int64_t index) {
            from += index * x[axis];
            to += index * out[axis];
        });
    }
};

// Both arrays along the axis that neighbouring threads walk, and the other axes.
struct Run {
    const void* x;  // null: `pattern` instead
    void* out;
    std::int64_t x_step, out_step;
    uint4 pattern;
    Walk rows;
};

// Words that a thread has in flight: short ones are more.
constexpr int batch_of(int bytes) { return bytes >= 16 ? 4 : 8; }

// What     out = x, or a pattern
// Mapping  a thread owns batches of 4 or 8 words of a row (kit/elementwise.cuh); rows are found by divisions
// Traffic  both once, where words of 16 bytes or contiguous ones of less are moved: bound by memory
// Needs    all strides in words
template <class Word>
__global__ void __launch_bounds__(256) copy_words(const __grid_constant__ Run run, kit::RowTiles tiles) {
    constexpr int kBatch = batch_of(sizeof(Word));
    kit::dependency_wait();
    kit::dependents_launch();
    kit::for_each_tile<1, kBatch>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t step) {
        std::int64_t from = 0, to = 0;
        run.rows.find(row, from, to);
        const Word* x = static_cast<const Word*>(run.x) + from;
        Word* out = static_cast<Word*>(run.out) + to;
        Word words[kBatch];
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            const std::int64_t at = column + b * step;
            if (run.x == nullptr) {
                memcpy(&words[b], &run.pattern, sizeof(Word));
            } else if (at < tiles.dim) {
                words[b] = kit::load(x + at * run.x_step);
            }
        }
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            const std::int64_t at = column + b * step;
            if (at < tiles.dim) kit::store(out + at * run.out_step, words[b]);
        }
    });
}

// Bytes side by side: those before the first whole word of 16, these words, and those behind the last one.
struct Straight {
    const char* x;  // null: `pattern` instead
    char* out;
    std::int64_t words;
    int head, tail;
    uint4 pattern;
};

// What     out = x, or a pattern, of one run
// Mapping  a thread owns kBatch words, a block apart; what is no whole word is the first block's, a byte a thread
// Traffic  both once: bound by memory
// Needs    x and out begin equally far before a multiple of 16 bytes
template <int kBatch>
__global__ void __launch_bounds__(256) copy_run(const __grid_constant__ Straight run) {
    kit::dependency_wait();
    kit::dependents_launch();
    const std::int64_t first = std::int64_t{blockIdx.x} * (blockDim.x * kBatch) + threadIdx.x;
    const auto* x = reinterpret_cast<const uint4*>(run.x + run.head);
    auto* out = reinterpret_cast<uint4*>(run.out + run.head);
    uint4 words[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
        const std::int64_t at = first + b * blockDim.x;
        words[b] = run.pattern;
        if (run.x != nullptr && at < run.words) words[b] = kit::load(x + at);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
        const std::int64_t at = first + b * blockDim.x;
        if (at < run.words) kit::store(out + at, words[b]);
    }
    const int edge = static_cast<int>(threadIdx.x);
    if (blockIdx.x != 0 || edge >= run.head + run.tail) return;
    const std::int64_t at = edge < run.head ? edge : run.words * 16 + edge;
    run.out[at] = run.x != nullptr ? run.x[at] : reinterpret_cast<const char*>(&run.pattern)[at % 16];
}

inline constexpr int kTile = 64;

// A column of it begins in another bank than its neighbour.
template <class Word>
struct Tile {
    Word at[kTile][kTile + 4 / sizeof(Word)];
};

// Two axes, one contiguous in x, one in out.
struct Turn {
    const void* x;
    void* out;
    std::int64_t down, across;        // sizes: across is contiguous in x, down in out
    std::int64_t x_pitch, out_pitch;  // from one index of the other axis to the next
    unsigned tiles_down, tiles_across;
    Walk others;
};

// What     out[across, down] = x[down, across], for every index of the other axes
// Mapping  a block turns a tile of 64×64 through shared memory: warps read rows of x and write rows of out
// Traffic  both once: bound by memory, 16 loads in flight a thread
// Needs    256 threads
template <class Word>
__global__ void __launch_bounds__(256) copy_tiles(const __grid_constant__ Turn turn) {
    kit::dependency_wait();
    kit::dependents_launch();
    Tile<Word>& tile = kit::block_shared<Tile<Word>>();
    const std::int64_t plane = blockIdx.x / (turn.tiles_down * turn.tiles_across);
    const unsigned in_plane = blockIdx.x % (turn.tiles_down * turn.tiles_across);
    const std::int64_t down = std::int64_t{in_plane / turn.tiles_across} * kTile,
                       across = std::int64_t{in_plane % turn.tiles_across} * kTile;
    std::int64_t from = 0, to = 0;
    turn.others.find(plane, from, to);
    const int lane = static_cast<int>(threadIdx.x) & (kTile - 1),
              first = static_cast<int>(threadIdx.x) / kTile;
    const Word* x = static_cast<const Word*>(turn.x) + from + down * turn.x_pitch + across;
    Word* out = static_cast<Word*>(turn.out) + to + across * turn.out_pitch + down;
    constexpr int kRows = 256 / kTile;
#pragma unroll
    for (int i = 0; i < kTile; i += kRows) {
        const int row = first + i;
        if (down + row < turn.down && across + lane < turn.across)
            tile.at[row][lane] = kit::load(x + row * turn.x_pitch + lane);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTile; i += kRows) {
        const int row = first + i;
        if (across + row < turn.across && down + lane < turn.down)
            kit::store(out + row * turn.out_pitch + lane, tile.at[lane][row]);
    }
}

// What     out = x in another floating dtype
// Mapping  a thread owns one vector of 8 elements of a row (kit/elementwise.cuh)
// Traffic  both once: bound by memory
// Needs    whole vectors, where Out is not Any
template <class T, class Out>
__global__ void __launch_bounds__(256) convert(kit::VectorRows x, kit::VectorRows out, kit::RowTiles tiles) {
    kit::for_each_vector<8, Out>(tiles, [&](const auto& at) {
        float values[8];
        if constexpr (std::is_same_v<T, kit::Any>) {  // of 8 bits, too
            kit::with_type(x.dtype, [&](auto* type) {
                kit::to_floats(kit::load<std::remove_pointer_t<decltype(type)>, 8>(x, at), values);
            });
        } else {
            kit::load_row<T>(x, at, values);
        }
        kit::store_row<Out>(out, at, values);
    });
}

// What     the same for any strides
// Mapping  as copy_words, an element a word
// Traffic  both once, in sectors that are as full as the strides make them
__global__ void __launch_bounds__(256)
    convert_elements(const __grid_constant__ Run run, kit::RowTiles tiles, DType from_dtype, DType to_dtype) {
    constexpr int kBatch = batch_of(1);
    kit::dependency_wait();
    kit::dependents_launch();
    kit::for_each_tile<1, kBatch>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t step) {
        std::int64_t from = 0, to = 0;
        run.rows.find(row, from, to);
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            const std::int64_t at = column + b * step;
            if (at < tiles.dim)
                kit::store_as(to_dtype, run.out, to + at * run.out_step,
                              kit::load_as(from_dtype, run.x, from + at * run.x_step));
        }
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
