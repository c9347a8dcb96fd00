// gemm of few tokens, where the time is that of reading the weights: they go from memory straight into the registers
// of mma.sync.
//
// An instruction multiplies 16 rows of weights by eight tokens. Lane (g, t) = (lane / 4, lane % 4) loads 16 bytes of the
// weights' rows g and g + 8, and of token g, all from the same place along k. Which k stands where in an instruction is
// of no matter as long as both operands agree, so those 16 bytes are the fragments of two instructions: no shared memory,
// no shuffle. 16-bit elements and 8-bit ones are alike; int8's sums are whole numbers until they are parked.
#pragma once

#include "kit/ptx/pdl.cuh"
#include "ops/gemm/skinny_lane.cuh"
#include "ops/gemm/skinny_packed.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// A chunk of every row, from `at` on. All weights are asked for before the first is used; beyond the rows' end both
// operands are zeros.
template <class T, int kTokenTiles, bool kWhole>
__device__ __forceinline__ void multiply_chunk(SkinnySums<kTokenTiles, kit::Accumulator<T>>& sums,
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

template <class T, int kTokenTiles>
__device__ __forceinline__ void multiply_span(SkinnySums<kTokenTiles, kit::Accumulator<T>>& sums,
                                              const SkinnyArguments& args, int feature, const Span& span) {
    const LaneRows<kTokenTiles> rows(args, feature);
    constexpr int kChunk = SkinnyConfig::chunk_bytes(kTokenTiles);
    int at = span.begin;
    for (; at + kChunk <= span.end; at += kChunk)
        multiply_chunk<T, kTokenTiles, true>(sums, rows, at, args.row_bytes);
    if (at < span.end) multiply_chunk<T, kTokenTiles, false>(sums, rows, at, args.row_bytes);
}

// `to`: the place of the warp's first row and of the first token.
template <int kTokenTiles, class Sum>
__device__ __forceinline__ void park_sums(float* to, int stride, const Sum (&sums)[2][kTokenTiles][4]) {
#pragma unroll
    for (int j = 0; j < kTokenTiles; ++j) {
#pragma unroll
        for (int h = 0; h < 4; ++h) {
            float* at = to + (j * 8 + kit::accumulator_column(h)) * stride + kit::accumulator_row(h);
            at[0] = static_cast<float>(sums[0][j][h]);
            at[16] = static_cast<float>(sums[1][j][h]);
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
// Needs:   256 threads; the config's floats of dynamic shared memory; rows of whole, aligned 16 bytes. kCodes: of weights of
//          four bits, whose rows consist of 32 codes each; none: weights have T.
template <class T, int kTokenTiles, Codes kCodes>
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
    constexpr bool kPacked = kCodes != Codes::none;
    constexpr int kChunk =
        kPacked ? SkinnyConfig::packed_chunk_bytes() : SkinnyConfig::chunk_bytes(kTokenTiles);
    const Span span(args.row_bytes, kChunk, rank * sharers + warp % sharers, config.k_parts());

    prefetch_weights(args, feature, span);
    kit::dependency_wait();
    kit::dependents_launch();
    SkinnySums<kTokenTiles, kit::Accumulator<T>> sums = {};
    if constexpr (kPacked) {
        multiply_packed_span<T, kTokenTiles, kCodes>(sums, args, feature, span);
    } else {
        multiply_span<T>(sums, args, feature, span);
    }

    float* parked = kit::dynamic_shared<float>();
    park_sums<kTokenTiles>(parked + warp % sharers * kTokens * stride + rows * kWarpRows, stride, sums);
    if (sharers > 1) {
        __syncthreads();
        add_sharers(parked, kTokens * stride, sharers);
    }
    await_parked(config.splits);
    finish_parked<finished_rows(kTokens)>(args.epilogue,
                                          {.at = parked,
                                           .stride = stride,
                                           .group = kWarpRows / 2,
                                           .tokens = args.tokens.rows,
                                           .features = block_features,
                                           .token = 0,
                                           .feature = int64_t{block} * block_features},
                                          args.tokens.rows, args.first.rows, rank, config.splits,
                                          static_cast<int>(threadIdx.x), SkinnyConfig::kWarps * 32);
    release_parked(config.splits);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
