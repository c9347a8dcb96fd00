// gemm on mma.sync: what a launch knows, tiles, and how the panels of a stage come into shared memory.
#pragma once

#include "kit/mma_tile.cuh"
#include "kit/ptx/cp_async.cuh"
#include "ops/gemm/packed.cuh"
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

// `apart`: elements to where another such matrix begins, of several.
inline Operand operand(const Tensor& t, int64_t rows, int64_t length, int64_t stride, int64_t step,
                       int64_t apart = 0) {
    const auto begins = reinterpret_cast<uintptr_t>(t.data) |
                        static_cast<uintptr_t>(rows <= 1 ? 0 : bytes(t.dtype, stride)) |
                        static_cast<uintptr_t>(bytes(t.dtype, apart));
    int unit = step == 1 || length <= 1 ? 16 : 0;
    while (unit > 0 && begins % static_cast<unsigned>(unit) != 0) unit = unit == 4 ? 0 : unit / 2;
    return {t.data, rows, length, stride, step, unit};
}

// What lies in memory, and what becomes of it on the way to an instruction.
enum class Weights {
    rows,     // k contiguous
    columns,  // n contiguous: transposed by ldmatrix
    scaled,   // k contiguous, of 8 bits; scales change within the sum
    packed    // codes of four bits, of which numbers of 16 bits are made; a may be such, too
};

struct MmaArguments {
    Operand a, b, up;                             // up is not looked at where nothing is gated
    PackedOperand packed_a, packed_b, packed_up;  // instead, of four bits
    bool plain;                                   // those of them that there are
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

// One of two matrices of the same shape.
__device__ __forceinline__ const Operand& chosen(bool second, const Operand& a, const Operand& b) {
    return second ? b : a;
}
// An operand that a kernel makes: of two the members are chosen, for a reference to either would keep both in memory.
struct MadeOperand : Operand {};
__device__ __forceinline__ Operand chosen(bool second, const MadeOperand& a, const MadeOperand& b) {
    return {
        second ? b.data : a.data, a.rows, a.length, second ? b.stride : a.stride, second ? b.step : a.step,
        second ? b.unit : a.unit};
}

// `Rows` rows of one panel, from (row, at) of the matrix, or of both.
template <class Word, int Rows, int Threads, Turns kTurns = Turns::none, class From>
__device__ __forceinline__ void load_panel(char* panel, const From& first, const From& second, int64_t row,
                                           int64_t at) {
#pragma unroll
    for (int i = 0; i < (Rows * kit::kPanelChunks + Threads - 1) / Threads; ++i) {
        const int index = i * Threads + static_cast<int>(threadIdx.x);
        const int r = index / kit::kPanelChunks, c = index % kit::kPanelChunks;
        if (Rows * kit::kPanelChunks % Threads != 0 && r >= Rows) break;
        const bool other = kTurns == Turns::none   ? false
                           : kTurns == Turns::rows ? r / 8 % 2 != 0
                                                   : c % 2 != 0;
        load_chunk<Word>(panel + kit::panel_offset(r, c), chosen(other, first, second),
                         row + (kTurns == Turns::rows ? r / 16 * 8 + r % 8 : r),
                         at + (kTurns == Turns::chunks ? c / 2 : c) * (16 / static_cast<int>(sizeof(Word))));
    }
}

// The panels of b of one step, or of b and up. Arguments: MmaArguments, or what a kernel has of them.
template <class T, class Shape, bool kTransposed, bool kGated, class Arguments>
__device__ __forceinline__ void load_weights(char* to, const Arguments& args, const Place& place,
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

template <class T, class Shape, class Arguments>
__device__ __forceinline__ void load_tokens(char* stage, const Arguments& args, const Place& place,
                                            int64_t step) {
    using Word = std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>;
    load_panel<Word, Shape::kRows, Shape::kThreads>(stage, args.a, args.a, place.row,
                                                    step * (kit::kPanelBytes / sizeof(T)));
}

template <class T, class Shape, bool kTransposed, class Arguments>
__device__ __forceinline__ void load_stage(char* stage, const Arguments& args, const Place& place,
                                           int64_t step) {
    load_tokens<T, Shape>(stage, args, place, step);
    char* b = stage + Shape::kABytes;
    if (args.epilogue.gated) {
        load_weights<T, Shape, kTransposed, true>(b, args, place, step);
    } else {
        load_weights<T, Shape, kTransposed, false>(b, args, place, step);
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
