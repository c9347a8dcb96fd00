// gemm of few tokens: what a warp's lanes read and multiply, of weights as they lie and of codes alike.
#pragma once

#include "kit/mma_tile.cuh"
#include "kit/ptx/mma.cuh"
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
    gemm::ScalesAlong first_scales, second_scales;  // where these are codes of four bits
    Epilogue epilogue;
    int row_bytes;  // of weights, along k
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

template <int kTokenTiles, class Sum = float>
using SkinnySums = Sum[2][kTokenTiles][4];

template <class T>
__device__ __forceinline__ void multiply_halves(kit::Accumulator<T> (&sums)[4], const Bits& row,
                                                const Bits& row8, const Bits& token) {
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

// A warp's part of k, in bytes of a row.
struct Span {
    int begin, end;
    __device__ Span(int row_bytes, int chunk, int part, int parts) {
        const int64_t chunks = (row_bytes + chunk - 1) / chunk;
        begin = static_cast<int>(chunks * part / parts) * chunk;
        end = min(row_bytes, static_cast<int>(chunks * (part + 1) / parts) * chunk);
    }
};

inline constexpr int kLinesAhead = 2;  // of each row that L2 has on their way

// The row of a warp's that its lane asks L2 for.
__device__ __forceinline__ const char* prefetched_row(const SkinnyArguments& args, int feature) {
    const int lane = kit::lane_index();
    return lane_row(lane < 16 ? args.first : args.second,
                    feature + lane % 16 + (lane < 16 || args.epilogue.gated ? 0 : 16), 0);
}
// L2 may have the first weights on their way before the kernel before has ended: what that still writes, L2 sees.
__device__ __forceinline__ void prefetch_weights(const SkinnyArguments& args, int feature, const Span& span) {
    const char* from = prefetched_row(args, feature);
    for (int at = span.begin; at < min(span.end, span.begin + kLinesAhead * kLineBytes); at += kLineBytes)
        kit::prefetch_l2(from + at);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
