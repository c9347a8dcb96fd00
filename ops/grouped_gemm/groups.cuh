// The groups of grouped_gemm on the device: whose a tile is, and where a group's operands lie.
#pragma once

#include "kit/mma_tile.cuh"
#include "kit/ptx/shuffle.cuh"
#include "ops/gemm/arguments.cuh"
#include "ops/grouped_gemm/groups.h"

namespace weft::inline WEFT_TARGET {
namespace {

// The numbers of the contract. `rows`: of a, or that each group has room for.
struct GroupRows {
    const int* numbers;  // absent where each group has all rows of its matrix
    bool apart;          // each group has a matrix of its own; else numbers are ends
    int groups, rows;
};

// Elements from one group to the next; 0 where all rows are in one matrix, and of what is absent.
struct GroupStrides {
    int64_t a, b, up, out, bias, up_bias, a_scale, b_block_scale, up_block_scale;
};

// A tile: its group, the group's rows in their matrix, which of the group's tiles it is, and how many of these are one below
// the other.
struct GroupTile {
    int group, begin, end, index, row_tiles;
};

// Which tile is whose, found by a whole warp: a lane has a group's end, and the tiles of all groups up to there. 32 groups at a
// time; tiles are asked for in rising order.
class GroupWalk {
   public:
    // `height`: rows of a tile; `columns`: tiles side by side.
    __device__ __forceinline__ GroupWalk(const GroupRows& rows, int height, int columns)
        : rows_(rows), height_(height), columns_(columns) {
        take();
    }

    __device__ __forceinline__ bool find(int tile, GroupTile& found) {
        uint32_t later;
        while ((later = kit::ballot(upto_ > tile)) == 0) {
            if (first_ + 32 >= rows_.groups) return false;
            first_ += 32;
            before_ = kit::shuffle(upto_, 31);
            end_before_ = kit::shuffle(end_, 31);
            take();
        }
        const int lane = __ffs(static_cast<int>(later)) - 1, other = lane > 0 ? lane - 1 : 0;
        const int end = kit::shuffle(end_, other), upto = kit::shuffle(upto_, other);
        found.group = first_ + lane;
        found.begin = rows_.apart ? 0 : lane > 0 ? end : end_before_;
        found.end = kit::shuffle(end_, lane);
        found.index = tile - (lane > 0 ? upto : before_);
        found.row_tiles = tiles_of(found.end - found.begin);
        return true;
    }

   private:
    __device__ __forceinline__ int tiles_of(int rows) const {
        return rows > 0 ? (rows - 1) / height_ + 1 : 0;  // of any number of rows, without a larger one
    }

    // The 32 groups from first_ on.
    __device__ __forceinline__ void take() {
        const int lane = kit::lane_index(), group = first_ + lane;
        int number = 0;
        if (group < rows_.groups) number = rows_.numbers != nullptr ? rows_.numbers[group] : rows_.rows;
        end_ = max(0, min(number, rows_.rows));
        int begin = 0;
        if (!rows_.apart) {  // an end is at least the one before
            end_ = max(end_, end_before_);
#pragma unroll
            for (unsigned apart = 1; apart < 32; apart *= 2) end_ = max(end_, kit::shuffle_up(end_, apart));
            begin = kit::shuffle_up(end_, 1);
            if (lane == 0) begin = end_before_;
        }
        upto_ = tiles_of(end_ - begin) * columns_;
#pragma unroll
        for (unsigned apart = 1; apart < 32; apart *= 2) {
            const int sum = kit::shuffle_up(upto_, apart);
            if (lane >= static_cast<int>(apart)) upto_ += sum;
        }
        upto_ += before_;
    }

    const GroupRows& rows_;
    int height_, columns_;
    int first_ = 0, before_ = 0, end_before_ = 0;  // the lanes' first group; tiles and rows before it
    int end_ = 0, upto_ = 0;                       // of the lane's group
};

template <class T>
__device__ __forceinline__ T* moved(T* data, int64_t elements) {
    return data != nullptr ? data + elements : nullptr;
}
__device__ __forceinline__ ByColumn moved(ByColumn columns, int64_t elements) {
    const int64_t size = columns.dtype == DType::fp32 ? 4 : 2;
    columns.data = moved(static_cast<const char*>(columns.data), elements * size);
    return columns;
}
template <int Rows>
__device__ __forceinline__ StepScales<Rows> moved(StepScales<Rows> scales, int64_t elements) {
    scales.data = moved(scales.data, elements);
    return scales;
}

// The epilogue of a group's product; results have 16 bits. What gemm has and a grouped product lacks is absent here in a way
// that the compiler knows.
__device__ __forceinline__ Epilogue epilogue_of_group(const Epilogue& first, const GroupStrides& apart,
                                                      int group) {
    Epilogue own{};
    own.a_scale = first.a_scale;
    own.b_scale = moved(first.b_scale, group);
    own.up_scale = moved(first.up_scale, group);
    own.bias = moved(first.bias, group * apart.bias);
    own.up_bias = moved(first.up_bias, group * apart.up_bias);
    own.out = static_cast<uint16_t*>(first.out) + group * apart.out;
    own.out_stride = first.out_stride;
    own.out_dtype = first.out_dtype;
    own.activation = first.activation;
    own.gated = first.gated;
    own.out_vectors = first.out_vectors;
    return own;
}
__device__ __forceinline__ ScalesWithin scales_of_group(const ScalesWithin& first, const GroupStrides& apart,
                                                        int group) {
    return {moved(first.a, group * apart.a_scale), moved(first.b, group * apart.b_block_scale),
            moved(first.up, group * apart.up_block_scale), false};
}

inline GroupRows group_rows(const GroupedGemm& op) {
    // Numbers of 32 bits reach no further row.
    const int64_t rows = std::min<int64_t>(op.rows(), INT32_MAX);
    return {static_cast<const int*>(op.numbers().data), op.apart(), static_cast<int>(op.groups()),
            static_cast<int>(rows)};
}
inline GroupStrides group_strides(const GroupedGemm& op) {
    const auto rows_apart = [&](const Tensor& t) { return op.apart() ? grouped::apart(t) : 0; };
    return {.a = rows_apart(op.a),
            .b = grouped::apart(op.b),
            .up = grouped::apart(op.up),
            .out = rows_apart(op.out),
            .bias = grouped::apart(op.bias),
            .up_bias = grouped::apart(op.up_bias),
            .a_scale = rows_apart(op.a_group_scale),
            .b_block_scale = grouped::apart(op.b_block_scale),
            .up_block_scale = grouped::apart(op.up_block_scale)};
}
// The first group's; others' operands begin at as many bytes of a vector.
inline Epilogue epilogue_of_first(const GroupedGemm& op, const Gemm& first, const gemm::Problem& p) {
    Epilogue e = epilogue_of(first, p);
    e.bias = by_column(op.bias);
    e.up_bias = by_column(op.up_bias);
    e.out_vectors = kit::rows_aligned(op.out, 4);
    return e;
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
