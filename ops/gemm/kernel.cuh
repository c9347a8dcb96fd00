// gemm on the tensor cores of every architecture since SM 8.0: mma.sync fed by a ring of cp.async stages.
#pragma once

#include "kit/mma_tile.cuh"
#include "kit/ptx/cp_async.cuh"
#include "kit/ptx/mma.cuh"
#include "ops/gemm/parked.cuh"
#include "ops/gemm/scales.cuh"
#include "ops/gemm/tile_order.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// A matrix as the loader sees it: rows of `length` elements, `step` apart.
struct Operand {
    const void* data;
    int64_t rows, length, stride, step;
    int unit;  // every row begins at a multiple of so many bytes, 16, 8 or 4, and step is 1; else 0
};

struct MmaArguments {
    Operand a, b, up;  // up is not looked at where nothing is gated
    ScalesWithin scales;
    Epilogue epilogue;
    int64_t m, n;
    int row_tiles, column_tiles;
    int64_t steps;  // of 128 bytes along k
    int splits;     // blocks of a cluster that share a tile, each with its part of k
};

// Rows and columns of the block's tile, warps along each, stages of the ring, blocks that a multiprocessor
// holds.
template <int Rows, int Columns, int WarpRows, int WarpColumns, int Stages, int Blocks>
struct Shape {
    static constexpr int kRows = Rows, kColumns = Columns, kStages = Stages, kBlocks = Blocks;
    static constexpr int kWarpColumns = WarpColumns;
    static constexpr int kThreads = WarpRows * WarpColumns * 32;
    static constexpr int kWarpM = Rows / WarpRows, kWarpN = Columns / WarpColumns;
    static constexpr int kTilesM = kWarpM / 16, kTilesN = kWarpN / 8;
    static constexpr int kABytes = Rows * kit::kPanelBytes,
                         kStageBytes = kABytes + Columns * kit::kPanelBytes;
    // The sums pass through shared memory too; 8 floats of padding keep the fragments' stores off each
    // other's banks.
    static constexpr int kSumStride = Columns + 8;
    static constexpr int kSumBytes = Rows * kSumStride * 4;
    static constexpr int kSharedBytes = Stages * kStageBytes > kSumBytes ? Stages* kStageBytes : kSumBytes;
};
using Large = Shape<128, 128, 2, 4, 3, 1>;
using Small = Shape<64, 64, 2, 2, 4, 3>;
using Flat = Shape<16, 64, 1, 4, 6, 3>;

// Of a tile. Gated, groups of eight columns are b's and up's in turn, so that a warp has both sums of a column.
template <class Shape>
__device__ __forceinline__ int out_columns(const MmaArguments& args) {
    return args.epilogue.gated ? Shape::kColumns / 2 : Shape::kColumns;
}

// The first row and column of the tile that a block computes.
struct Place {
    int64_t row, column;
};
template <class Shape>
__device__ __forceinline__ Place place_of(const MmaArguments& args, int tile) {
    const TileIndex at = tile_index(tile, args.row_tiles, args.column_tiles, 8);
    return {int64_t{at.row} * Shape::kRows, int64_t{at.column} * out_columns<Shape>(args)};
}

// 16 bytes in pieces of as many as their address is a multiple of.
template <int Bytes>
__device__ __forceinline__ void copy_units(char* to, const void* from, bool valid) {
#pragma unroll
    for (int i = 0; i < 16; i += Bytes) {
        kit::cp_async<Bytes>(to + i, static_cast<const char*>(from) + (valid ? i : 0), valid);
    }
}

// 16 bytes of a row into shared memory, zeros beyond the matrix. Word: an unsigned integer as wide as an
// element.
template <class Word>
__device__ __forceinline__ void load_chunk(char* to, const Operand& from, int64_t row, int64_t at) {
    constexpr int kCount = 16 / sizeof(Word);
    const int64_t left = row < from.rows ? from.length - at : 0;
    const Word* source =
        static_cast<const Word*>(from.data) + (left > 0 ? row * from.stride + at * from.step : 0);
    if (from.unit > 0 && (left <= 0 || left >= kCount)) {
        if (from.unit == 16) return kit::cp_async_16(to, source, left > 0);
        from.unit == 8 ? copy_units<8>(to, source, left > 0) : copy_units<4>(to, source, left > 0);
        return;
    }
    alignas(16) Word words[kCount];  // all are asked for before any is stored
#pragma unroll
    for (int i = 0; i < kCount; ++i) words[i] = i < left ? source[i * from.step] : Word(0);
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(words);
}

// Whether a panel is of one matrix, or of two in turn: eight rows of each, or eight columns (a chunk of 16-bit
// elements) of each.
enum class Turns { none, rows, chunks };

// `Rows` rows of one panel, from (row, at) of the matrix, or of both.
template <class Word, int Rows, int Threads, Turns kTurns = Turns::none>
__device__ __forceinline__ void load_panel(char* panel, const Operand& first, const Operand& second,
                                           int64_t row, int64_t at) {
#pragma unroll
    for (int i = 0; i < (Rows * kit::kPanelChunks + Threads - 1) / Threads; ++i) {
        const int index = i * Threads + static_cast<int>(threadIdx.x);
        const int r = index / kit::kPanelChunks, c = index % kit::kPanelChunks;
        if (Rows * kit::kPanelChunks % Threads != 0 && r >= Rows) break;
        const bool other = kTurns == Turns::none   ? false
                           : kTurns == Turns::rows ? r / 8 % 2 != 0
                                                   : c % 2 != 0;
        load_chunk<Word>(panel + kit::panel_offset(r, c), other ? second : first,
                         row + (kTurns == Turns::rows ? r / 16 * 8 + r % 8 : r),
                         at + (kTurns == Turns::chunks ? c / 2 : c) * (16 / static_cast<int>(sizeof(Word))));
    }
}

// The panels of b of one step, or of b and up.
template <class T, class Shape, bool kTransposed, bool kGated>
__device__ __forceinline__ void load_weights(char* to, const MmaArguments& args, const Place& place,
                                             int64_t step) {
    using Word = std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>;
    constexpr int kDepth = kit::kPanelBytes / sizeof(T);  // of k in a step
    if constexpr (kTransposed) {
        constexpr int kOut = kGated ? kDepth / 2 : kDepth;  // columns of out in a panel
#pragma unroll
        for (int panel = 0; panel < Shape::kColumns / kDepth; ++panel) {
            load_panel<Word, kDepth, Shape::kThreads, kGated ? Turns::chunks : Turns::none>(
                to + panel * kDepth * kit::kPanelBytes, args.b, args.up, step * kDepth,
                place.column + panel * kOut);
        }
    } else {
        load_panel<Word, Shape::kColumns, Shape::kThreads, kGated ? Turns::rows : Turns::none>(
            to, args.b, args.up, place.column, step * kDepth);
    }
}

template <class T, class Shape, bool kTransposed>
__device__ __forceinline__ void load_stage(char* stage, const MmaArguments& args, const Place& place,
                                           int64_t step) {
    using Word = std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>;
    load_panel<Word, Shape::kRows, Shape::kThreads>(stage, args.a, args.a, place.row,
                                                    step * (kit::kPanelBytes / sizeof(T)));
    char* b = stage + Shape::kABytes;
    if (args.epilogue.gated) {
        load_weights<T, Shape, kTransposed, true>(b, args, place, step);
    } else {
        load_weights<T, Shape, kTransposed, false>(b, args, place, step);
    }
}

template <class Shape>
using Sums = float[Shape::kTilesM][Shape::kTilesN][4];

template <class T>
__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    if constexpr (sizeof(T) == 2) {
        kit::mma_m16n8k16<T>(c, a, b);
    } else {
        kit::mma_m16n8k32<T, T>(c, a, b);
    }
}

// The warp's part of one stage.
template <class T, class Shape, bool kTransposed>
__device__ __forceinline__ void multiply_stage(Sums<Shape>& sums, const char* stage) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int row = warp / Shape::kWarpColumns * Shape::kWarpM,
              column = warp % Shape::kWarpColumns * Shape::kWarpN;
    const char* b_panel = stage + Shape::kABytes;
    // fp8 is not unrolled: Hopper widens its fragments to fp16 in registers, and four steps at once would
    // spill.
#pragma unroll(sizeof(T) == 2 ? 4 : 1)
    for (int chunk = 0; chunk < kit::kPanelChunks; chunk += 2) {
        uint32_t a[Shape::kTilesM][4], b[Shape::kTilesN][2];
#pragma unroll
        for (int i = 0; i < Shape::kTilesM; ++i) kit::load_a_fragment(a[i], stage, row + i * 16, chunk);
#pragma unroll
        for (int j = 0; j < Shape::kTilesN; j += 2) {
            const int at = column + j * 8;
            if constexpr (kTransposed) {  // a panel holds 64 columns; a step of k is 16 of its rows
                const char* panel = b_panel + at / 64 * (64 * kit::kPanelBytes);
                kit::load_b_fragments_transposed(b[j], b[j + 1], panel, chunk * 8, at % 64 / 8);
            } else {
                kit::load_b_fragments(b[j], b[j + 1], b_panel, at, chunk);
            }
        }
#pragma unroll
        for (int i = 0; i < Shape::kTilesM; ++i) {
#pragma unroll
            for (int j = 0; j < Shape::kTilesN; ++j) multiply<T>(sums[i][j], a[i], b[j]);
        }
    }
}

// What multiplies a warp's products of one step, 128 of k of e4m3: of its rows, and of its columns, which are of one block
// of b and, gated, of one of up.
template <class Shape>
struct WarpScales {
    float row[Shape::kTilesM][2], column[2];

    __device__ __forceinline__ WarpScales(const MmaArguments& args, const Place& place, int64_t step) {
        const int64_t first =
            place.row + static_cast<int>(threadIdx.x) / 32 / Shape::kWarpColumns * Shape::kWarpM;
#pragma unroll
        for (int i = 0; i < Shape::kTilesM; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int64_t at = first + i * 16 + kit::accumulator_row(2 * half);
                row[i][half] = args.scales.a.of(at, step, at < args.m);
            }
        }
        column[0] = args.scales.b.of(place.column, step);
        column[1] = args.epilogue.gated ? args.scales.up.of(place.column, step) : column[0];
    }
    __device__ __forceinline__ void add(Sums<Shape>& sums, const Sums<Shape>& products) const {
#pragma unroll
        for (int i = 0; i < Shape::kTilesM; ++i) {
#pragma unroll
            for (int j = 0; j < Shape::kTilesN; ++j) {
#pragma unroll
                for (int q = 0; q < 4; ++q)
                    sums[i][j][q] = fmaf(products[i][j][q], row[i][q / 2] * column[j % 2], sums[i][j][q]);
            }
        }
    }
};

// The ring: stages - 1 loads are under way while one stage is multiplied. One barrier a step: it makes the
// stage visible, and says that everybody has left the stage that is loaded next.
template <class T, class Shape, bool kTransposed, bool kScaled>
__device__ __forceinline__ void accumulate(Sums<Shape>& sums, char* ring, const MmaArguments& args,
                                           const Place& place, int64_t begin, int64_t end) {
    constexpr int kAhead = Shape::kStages - 1;
    for (int i = 0; i < kAhead; ++i) {
        if (begin + i < end) {
            load_stage<T, Shape, kTransposed>(ring + i * Shape::kStageBytes, args, place, begin + i);
        }
        kit::cp_async_commit();
    }
    int now = 0, next = kAhead;
    for (int64_t step = begin; step < end; ++step) {
        kit::cp_async_wait<kAhead - 1>();
        __syncthreads();
        if (step + kAhead < end) {
            load_stage<T, Shape, kTransposed>(ring + next * Shape::kStageBytes, args, place, step + kAhead);
        }
        kit::cp_async_commit();
        const char* stage = ring + now * Shape::kStageBytes;
        if constexpr (kScaled) {
            Sums<Shape> products = {};
            multiply_stage<T, Shape, kTransposed>(products, stage);
            WarpScales<Shape>(args, place, step).add(sums, products);
        } else {
            multiply_stage<T, Shape, kTransposed>(sums, stage);
        }
        now = now + 1 == Shape::kStages ? 0 : now + 1;
        next = next + 1 == Shape::kStages ? 0 : next + 1;
    }
    kit::cp_async_wait<0>();
    __syncthreads();  // the ring becomes the place of the sums
}

template <class Shape>
__device__ __forceinline__ void park_sums(float* parked, const Sums<Shape>& sums) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int row = warp / Shape::kWarpColumns * Shape::kWarpM,
              column = warp % Shape::kWarpColumns * Shape::kWarpN;
#pragma unroll
    for (int i = 0; i < Shape::kTilesM; ++i) {
#pragma unroll
        for (int j = 0; j < Shape::kTilesN; ++j) {
#pragma unroll
            for (int half = 0; half < 4; half += 2) {
                float* to = parked + (row + i * 16 + kit::accumulator_row(half)) * Shape::kSumStride +
                            column + j * 8 + kit::accumulator_column(half);
                *reinterpret_cast<float2*>(to) = make_float2(sums[i][j][half], sums[i][j][half + 1]);
            }
        }
    }
}

// What:    out tile = epilogue(sum over k of a · b [and of a · up]), see gemm.h.
// Mapping: a cluster of `splits` blocks a tile, each with every step of its part of k; a warp owns kWarpM by
//          kWarpN of the tile as mma fragments. The blocks' sums are added in rank order (deterministic), each
//          block finishing its share of the tile, four columns a thread.
// Traffic: a is read once for each column of tiles, b once for each row of tiles, through L2; bound by
//          mma.sync's rate.
// Needs:   kThreads threads, kSharedBytes of dynamic shared memory, steps >= splits or steps == 0 with one
//          split. kScaled: scales change within the sum; of 8-bit elements in tiles that lie within a block of scales,
//          which those of 64 columns do.
template <class T, class Shape, bool kTransposed, bool kScaled>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    mma_gemm(const __grid_constant__ MmaArguments args) {
    char* ring = kit::dynamic_shared<char>();
    const int rank = args.splits > 1 ? static_cast<int>(kit::cluster_rank()) : 0;
    const Place place = place_of<Shape>(args, static_cast<int>(blockIdx.x) / args.splits);
    Sums<Shape> sums = {};
    accumulate<T, Shape, kTransposed, kScaled>(sums, ring, args, place, args.steps * rank / args.splits,
                                               args.steps * (rank + 1) / args.splits);

    float* parked = reinterpret_cast<float*>(ring);
    park_sums<Shape>(parked, sums);
    await_parked(args.splits);
    finish_parked(args.epilogue,
                  {.at = parked,
                   .stride = Shape::kSumStride,
                   .group = 8,
                   .tokens = Shape::kRows,
                   .features = out_columns<Shape>(args),
                   .token = place.row,
                   .feature = place.column},
                  args.m, args.n, rank, args.splits, static_cast<int>(threadIdx.x), Shape::kThreads);
    release_parked(args.splits);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
