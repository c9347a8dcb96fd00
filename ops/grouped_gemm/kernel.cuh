// grouped_gemm on the tensor cores of every architecture since SM 8.0: gemm's mma.sync kernel over the groups' tiles.
#pragma once

#include "ops/gemm/kernel.cuh"
#include "ops/grouped_gemm/groups.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

struct GroupedMmaArguments {
    MmaArguments first;  // the product of the first group, whose rows all have
    GroupRows rows;
    GroupStrides apart;
};

// What gemm's loader and products are told of a group. The epilogue but for `gated` is made where it is used.
struct GroupProduct {
    MadeOperand a, b, up;
    ScalesWithin scales;
    struct {
        bool gated;
    } epilogue;
    int64_t m, steps;
};

template <class T>
__device__ __forceinline__ GroupProduct product_of_group(const GroupedMmaArguments& args,
                                                         const GroupTile& tile) {
    const auto of = [&](const Operand& operand, int64_t apart) {
        MadeOperand made{operand};
        made.data = static_cast<const T*>(operand.data) + tile.group * apart;
        return made;
    };
    GroupProduct own{};
    own.a = of(args.first.a, args.apart.a);
    own.a.rows = tile.end;
    own.b = of(args.first.b, args.apart.b);
    own.up = of(args.first.up, args.apart.up);
    own.scales = scales_of_group(args.first.scales, args.apart, tile.group);
    own.epilogue.gated = args.first.epilogue.gated;
    own.m = tile.end;
    own.steps = args.first.steps;
    return own;
}

// What:    the rows of each group's part of out = epilogue(sum over k of a · b of the group [and of a · up]), see
//          grouped_gemm.h.
// Mapping: as many blocks as run at once, each with every so many-th tile of those that the groups have, which the warps
//          find by adding up the groups' sizes. A tile begins at its group's first row or a multiple of tiles after it, and
//          what lies beyond the group's last row is neither read nor written. The rest is gemm's (ops/gemm/kernel.cuh).
// Traffic: a once for each column of tiles, the weights of a group once for each of its rows of tiles, through L2; bound by
//          mma.sync's rate, and of few rows by the weights.
// Needs:   what mma_gemm needs; one part along k.
template <class T, class Shape, Weights kWeights>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    grouped_mma(const __grid_constant__ GroupedMmaArguments args) {
    char* ring = kit::dynamic_shared<char>();
    float* parked = reinterpret_cast<float*>(ring);
    GroupWalk walk(args.rows, Shape::kRows, args.first.column_tiles);
    GroupTile at;
    for (int tile = static_cast<int>(blockIdx.x); walk.find(tile, at); tile += static_cast<int>(gridDim.x)) {
        const GroupProduct own = product_of_group<T>(args, at);
        const TileIndex index = tile_index(at.index, at.row_tiles, args.first.column_tiles, 8);
        const Place place{at.begin + int64_t{index.row} * Shape::kRows,
                          int64_t{index.column} * out_columns<Shape>(args.first)};
        Sums<Shape> sums = {};
        accumulate<T, Shape, kWeights>(sums, ring, own, place, 0, own.steps);
        park_sums<Shape>(parked, sums);
        __syncthreads();
        finish_parked<finished_rows(Shape::kRows)>(
            epilogue_of_group(args.first.epilogue, args.apart, at.group),
            {.at = parked,
             .stride = Shape::kSumStride,
             .group = 8,
             .tokens = Shape::kRows,
             .features = out_columns<Shape>(args.first),
             .token = place.row,
             .feature = place.column},
            own.m, args.first.n, 0, 1, static_cast<int>(threadIdx.x), Shape::kThreads);
        __syncthreads();  // the place of the sums becomes the ring
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
