// gemm with plain fp32 multiply-adds: for fp32 operands, and whatever else the tensor cores do not take.
#pragma once

#include "ops/gemm/epilogue.cuh"
#include "ops/gemm/int4.cuh"
#include "ops/gemm/problem.h"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kFmaTile = 64, kFmaDepth = 16, kFmaThreads = 256;

// Rows along m or n, `stride` elements apart; neighbours along k are `step` apart.
struct FmaOperand {
    const void* data;
    DType dtype;
    int64_t rows, stride, step;
    gemm::ScalesAlong scales;

    // An element, times the scale of its group.
    __device__ __forceinline__ float element(int64_t row, int64_t k) const {
        const int64_t index = row * stride + k * step;
        if (dtype == DType::int4) {
            const int64_t place = scales.groups.at(row, k >> scales.columns_log2);
            return (load_int4(data, index) - scales.zero(row, k)) *
                   kit::load_as(scales.groups.dtype, scales.groups.data, place);
        }
        const float value =
            dtype == DType::fp4_e2m1 ? kit::load_e2m1(data, index) : kit::load_as(dtype, data, index);
        return scales.groups.data == nullptr
                   ? value
                   : value * kit::load_group_scale(scales.groups, row / scales.rows, k);
    }
};

struct FmaArguments {
    FmaOperand a, b, up;  // up.data is null where nothing is gated
    Epilogue epilogue;
    int64_t m, n, k;
    int64_t row_tiles;
};

struct FmaTile {  // k runs along the first axis; four floats of padding spread the transposing stores
    float a[kFmaDepth][kFmaTile + 4], b[kFmaDepth][kFmaTile + 4];
};

using FmaSums = float[4][4];

// 64 rows of 16 steps of k, in the order in which memory has them: along k where that is contiguous, else
// along rows.
__device__ __forceinline__ void load_fma_tile(float (&to)[kFmaDepth][kFmaTile + 4], const FmaOperand& from,
                                              int64_t row, int64_t at, int64_t length) {
#pragma unroll
    for (int i = 0; i < kFmaTile * kFmaDepth / kFmaThreads; ++i) {
        const int index = i * kFmaThreads + static_cast<int>(threadIdx.x);
        const int r = from.step == 1 ? index / kFmaDepth : index % kFmaTile;
        const int d = from.step == 1 ? index % kFmaDepth : index / kFmaTile;
        const bool inside = row + r < from.rows && at + d < length;
        to[d][r] = inside ? from.element(row + r, at + d) : 0.0f;
    }
}

// A thread's sums over all of k: rows from r, columns from c of the tile at (row, column).
__device__ __forceinline__ void multiply_fma(FmaSums& sums, FmaTile& tile, const FmaArguments& args,
                                             const FmaOperand& b, int64_t row, int64_t column, int r, int c) {
    for (int64_t at = 0; at < args.k; at += kFmaDepth) {
        load_fma_tile(tile.a, args.a, row, at, args.k);
        load_fma_tile(tile.b, b, column, at, args.k);
        __syncthreads();
#pragma unroll
        for (int d = 0; d < kFmaDepth; ++d) {
            const float4 x = *reinterpret_cast<const float4*>(&tile.a[d][r]);
            const float4 y = *reinterpret_cast<const float4*>(&tile.b[d][c]);
            const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) sums[i][j] = fmaf(xs[i], ys[j], sums[i][j]);
            }
        }
        __syncthreads();
    }
}

// What:    out tile = epilogue(sum over k of a · b) in fp32, in the order of k, see gemm.h.
// Mapping: a block computes 64 by 64, a thread 4 by 4 of it; with up, one product after the other.
// Traffic: two 16-byte loads from shared memory for 16 multiply-adds; bound by the fp32 units at best.
// Needs:   kFmaThreads threads.
__global__ void __launch_bounds__(kFmaThreads, 2) fma_gemm(const __grid_constant__ FmaArguments args) {
    FmaTile& tile = kit::block_shared<FmaTile>();
    const int64_t row = blockIdx.x % args.row_tiles * kFmaTile,
                  column = blockIdx.x / args.row_tiles * kFmaTile;
    const int r = static_cast<int>(threadIdx.x) / 16 * 4, c = static_cast<int>(threadIdx.x) % 16 * 4;
    FmaSums sums = {}, up = {};
    multiply_fma(sums, tile, args, args.b, row, column, r, c);
    if (args.epilogue.gated) multiply_fma(up, tile, args, args.up, row, column, r, c);
    const Scales scales = load_scales(args.epilogue);
    const int64_t left = args.n - column - c;
    if (left <= 0) return;
    const FourColumns columns =
        load_columns(args.epilogue, column + c, static_cast<int>(min(left, int64_t{4})));
    Four fours[4] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        fours[i].row = row + r + i, fours[i].wanted = row + r + i < args.m;
        if (!fours[i].wanted) continue;
#pragma unroll
        for (int j = 0; j < 4; ++j) fours[i].value[j] = sums[i][j], fours[i].up[j] = up[i][j];
        load_addends(args.epilogue, columns, fours[i]);
    }
    finish_fours(args.epilogue, scales, columns, fours);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
