// gemm of few tokens, where the time is that of reading the weights: they go from memory straight into the registers
// of mma.sync.
//
// An instruction multiplies 16 rows of weights by eight tokens. Lane (g, t) = (lane / 4, lane % 4) loads 16 bytes of the
// weights' rows g and g + 8, and of token g, all from the same place along k. Which k stands where in an instruction is
// of no matter as long as both operands agree, so those 16 bytes are the fragments of two instructions: no shared memory,
// no shuffle. 16-bit elements and 8-bit ones are alike.
#pragma once

#include "kit/mma_tile.cuh"
#include "kit/ptx/mma.cuh"
#include "kit/ptx/pdl.cuh"
#include "ops/gemm/parked.cuh"
#include "ops/gemm/skinny.h"

namespace weft::inline WEFT_TARGET {
namespace {

using gemm::SkinnyConfig;

inline constexpr int kLineBytes = 128;
inline constexpr int kStepBytes = 64;  // of a row: what a warp's lanes load at once

// Rows of bytes.
struct SkinnyOperand {
    const char* data;
    int64_t stride;
    int rows;
};

struct SkinnyArguments {
    SkinnyOperand tokens, first, second;  // a warp's upper and lower 16 rows: of b both, or gated of b and up
    Epilogue epilogue;
    int row_bytes;  // along k
    SkinnyConfig config;
};

using Bits = uint4;  // what a lane loads: fragments of two instructions

// A row beyond the last is read as the last.
__device__ __forceinline__ const char* lane_row(const SkinnyOperand& operand, int row, int piece) {
    return operand.data + min(row, operand.rows - 1) * operand.stride + piece * 16;
}

// What a lane reads of its warp's rows: of the weights g, g + 8, g + 16 and g + 24, of the tokens g, g + 8, ...
template <int kTokenTiles>
struct LaneRows {
    const char* weights[4];
    const char* tokens[kTokenTiles];

    __device__ LaneRows(const SkinnyArguments& args, int feature) {
        const int g = kit::lane_index() / 4, t = kit::lane_index() % 4;
        const int lower = args.epilogue.gated ? feature : feature + 16;
        weights[0] = lane_row(args.first, feature + g, t);
        weights[1] = lane_row(args.first, feature + g + 8, t);
        weights[2] = lane_row(args.second, lower + g, t);
        weights[3] = lane_row(args.second, lower + g + 8, t);
#pragma unroll
        for (int j = 0; j < kTokenTiles; ++j) tokens[j] = lane_row(args.tokens, j * 8 + g, t);
    }
};

template <int kTokenTiles>
using SkinnySums = float[2][kTokenTiles][4];

template <class T>
__device__ __forceinline__ void multiply_halves(float (&sums)[4], const Bits& row, const Bits& row8,
                                                const Bits& token) {
    const auto multiply = [&](const uint32_t (&a)[4], const uint32_t (&b)[2]) {
        if constexpr (sizeof(T) == 2) {
            kit::mma_m16n8k16<T>(sums, a, b);
        } else {
            kit::mma_m16n8k32<T, T>(sums, a, b);
        }
    };
    multiply({row.x, row8.x, row.y, row8.y}, {token.x, token.y});
    multiply({row.z, row8.z, row.w, row8.w}, {token.z, token.w});
}

// A chunk of every row, from `at` on. All weights are asked for before the first is used; beyond the rows' end both
// operands are zeros.
template <class T, int kTokenTiles, bool kWhole>
__device__ __forceinline__ void multiply_chunk(SkinnySums<kTokenTiles>& sums,
                                               const LaneRows<kTokenTiles>& rows, int at, int row_bytes) {
    constexpr int kChunkSteps = SkinnyConfig::chunk_bytes(kTokenTiles) / kStepBytes;
    const auto inside = [&](int step) {
        return kWhole || at + step * kStepBytes + kit::lane_index() % 4 * 16 < row_bytes;
    };
    Bits weights[kChunkSteps][4] = {};
#pragma unroll
    for (int s = 0; s < kChunkSteps; ++s) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const char* from = rows.weights[i] + at + s * kStepBytes;
            if (inside(s)) weights[s][i] = kit::load_streaming(reinterpret_cast<const Bits*>(from));
        }
    }
#pragma unroll
    for (int s = 0; s < kChunkSteps; ++s) {
#pragma unroll
        for (int j = 0; j < kTokenTiles; ++j) {
            Bits token = {};
            const char* from = rows.tokens[j] + at + s * kStepBytes;
            if (inside(s)) token = kit::load_readonly(reinterpret_cast<const Bits*>(from));
            multiply_halves<T>(sums[0][j], weights[s][0], weights[s][1], token);
            multiply_halves<T>(sums[1][j], weights[s][2], weights[s][3], token);
        }
    }
}

// A warp's part of k, in bytes of a row.
struct Span {
    int begin, end;
    __device__ Span(int row_bytes, int chunk, int part, int parts) {
        const int64_t chunks = (row_bytes + chunk - 1) / chunk;
        begin = static_cast<int>(chunks * part / parts) * chunk;
        end = min(row_bytes, static_cast<int>(chunks * (part + 1) / parts) * chunk);
    }
};

// L2 may have the first weights on their way before the kernel before has ended: what that still writes, L2 sees.
__device__ __forceinline__ void prefetch_weights(const SkinnyArguments& args, int feature, const Span& span) {
    const int lane = kit::lane_index(), row = lane % 16;
    const SkinnyOperand& operand = lane < 16 ? args.first : args.second;
    const char* from = lane_row(operand, feature + row + (lane < 16 || args.epilogue.gated ? 0 : 16), 0);
    for (int at = span.begin; at < min(span.end, span.begin + 2 * kLineBytes); at += kLineBytes)
        kit::prefetch_l2(from + at);
}

template <class T, int kTokenTiles>
__device__ __forceinline__ void multiply_span(SkinnySums<kTokenTiles>& sums, const SkinnyArguments& args,
                                              int feature, const Span& span) {
    const LaneRows<kTokenTiles> rows(args, feature);
    constexpr int kChunk = SkinnyConfig::chunk_bytes(kTokenTiles);
    int at = span.begin;
    for (; at + kChunk <= span.end; at += kChunk)
        multiply_chunk<T, kTokenTiles, true>(sums, rows, at, args.row_bytes);
    if (at < span.end) multiply_chunk<T, kTokenTiles, false>(sums, rows, at, args.row_bytes);
}

// `to`: the place of the warp's first row and of the first token.
template <int kTokenTiles>
__device__ __forceinline__ void park_sums(float* to, int stride, const SkinnySums<kTokenTiles>& sums) {
#pragma unroll
    for (int j = 0; j < kTokenTiles; ++j) {
#pragma unroll
        for (int h = 0; h < 4; ++h) {
            float* at = to + (j * 8 + kit::accumulator_column(h)) * stride + kit::accumulator_row(h);
            at[0] = sums[0][j][h];
            at[16] = sums[1][j][h];
        }
    }
}

// The sums of the warps that share rows, `apart` floats from each other, added in their order into the place of the first.
__device__ __forceinline__ void add_sharers(float* parked, int apart, int sharers) {
    for (int i = static_cast<int>(threadIdx.x) * 4; i < apart; i += static_cast<int>(blockDim.x) * 4) {
        float4 sum = {};
#pragma unroll
        for (int k = 0; k < SkinnyConfig::kWarps; ++k) {
            if (k >= sharers) break;
            const float4 part = kit::load(reinterpret_cast<const float4*>(parked + k * apart + i));
            sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
        }
        kit::store(reinterpret_cast<float4*>(parked + i), sum);
    }
}

// What:    out[m, n] = epilogue(sum over k of a · b [and of a · up]) for m up to 8 kTokenTiles, see gemm.h.
// Mapping: a cluster of `splits` blocks for every row_warps · 32 rows of weights; a warp has 32 of them and its part of k.
//          The parts' sums meet in shared memory and are added in order (deterministic).
// Traffic: every weight once, past L1; the tokens once a block, from L2; bound by the memory.
// Needs:   256 threads; the config's floats of dynamic shared memory; rows of whole, aligned 16 bytes.
template <class T, int kTokenTiles>
__global__ void __launch_bounds__(SkinnyConfig::kWarps * 32, SkinnyConfig::kBlocks)
    gemm_skinny(const __grid_constant__ SkinnyArguments args) {
    constexpr int kTokens = kTokenTiles * 8, kWarpRows = SkinnyConfig::kWarpRows;
    const SkinnyConfig& config = args.config;
    const int warp = static_cast<int>(threadIdx.x) / 32, sharers = config.sharers(),
              stride = config.parked_stride();
    const int block = static_cast<int>(blockIdx.x) / config.splits,
              rank = static_cast<int>(blockIdx.x) % config.splits;
    const int warp_features = args.epilogue.gated ? kWarpRows / 2 : kWarpRows;
    const int block_features = config.row_warps * warp_features, rows = warp / sharers;
    const int feature = block * block_features + rows * warp_features;
    const Span span(args.row_bytes, SkinnyConfig::chunk_bytes(kTokenTiles), rank * sharers + warp % sharers,
                    config.k_parts());

    prefetch_weights(args, feature, span);
    kit::dependency_wait();
    kit::dependents_launch();
    SkinnySums<kTokenTiles> sums = {};
    multiply_span<T>(sums, args, feature, span);

    float* parked = kit::dynamic_shared<float>();
    park_sums<kTokenTiles>(parked + warp % sharers * kTokens * stride + rows * kWarpRows, stride, sums);
    if (sharers > 1) {
        __syncthreads();
        add_sharers(parked, kTokens * stride, sharers);
    }
    await_parked(config.splits);
    finish_parked(args.epilogue,
                  {.at = parked,
                   .stride = stride,
                   .group = kWarpRows / 2,
                   .tokens = args.tokens.rows,
                   .features = block_features,
                   .token = 0,
                   .feature = int64_t{block} * block_features},
                  args.tokens.rows, args.first.rows, rank, config.splits, static_cast<int>(threadIdx.x),
                  SkinnyConfig::kWarps * 32);
    release_parked(config.splits);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
