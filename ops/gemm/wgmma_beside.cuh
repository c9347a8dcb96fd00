// gemm on wgmma: what multiplies or is added to the results of a tile whose columns are tokens, where these have rows of their
// own.
#pragma once

#include "ops/gemm/wgmma_door.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// Rows of floats of some tokens in the box: where the float of a feature lies. Lanes that read the same features of different
// tokens meet different banks.
template <WgmmaTile kTile>
__device__ __forceinline__ int row_place(int token, int feature) {
    return token * kTile.warpgroup_features() + (feature ^ (token / 2 % 4 * 8));
}
// By the threads of a warpgroup: `count` tokens' rows, from `part` on, into the box. A thread has four features of every so
// many-th token, and asks for those of a few tokens at once.
template <WgmmaTile kTile>
__device__ __forceinline__ void fill_rows(float* box, const RowsBeside& rows, const WgmmaArguments& args,
                                          const WgmmaPart& part, int count) {
    constexpr int kFours = kTile.warpgroup_features() / 4, kApart = 128 / kFours, kBatch = 4;
    const int thread = static_cast<int>(threadIdx.x) % 128, feature = thread % kFours * 4;
    const int column = part.feature + feature, left = args.features - column;
#pragma unroll 1
    for (int token = thread / kFours; token < count; token += kApart * kBatch) {
        StoredFour fours[kBatch] = {};
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
            const int row = part.token + token + i * kApart;
            if (row < args.tokens && left > 0)
                fours[i] = load_beside(rows, static_cast<unsigned>(row), column, left);
        }
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
            const int at = token + i * kApart;
            if (at >= count) break;
            float4 values;
            each_stored(rows.dtype, fours[i], [&](int j, float value) { (&values.x)[j] = value; });
            *reinterpret_cast<float4*>(box + row_place<kTile>(at, feature)) = values;
        }
    }
}
// use(result, element) for the results of as many tokens as the box has rows of, from kFirst on.
template <WgmmaTile kTile, int kFirst, int kCount, class F>
__device__ __forceinline__ void use_rows(float (&results)[kCount], const float* box, int warp, F use) {
    constexpr int kOf = kTile.gated ? 1 : 2, kEnd = std::min(kFirst + kTile.row_tokens(), kTile.tokens);
    const int token = kit::accumulator_column(0), feature = warp * 8 * kOf + kit::accumulator_row(0);
#pragma unroll
    for (int h = 0; h < kOf; ++h) {
        const float* from = box + row_place<kTile>(token, feature + 8 * h);
#pragma unroll
        for (int j = kFirst / 8; j < kEnd / 8; ++j) {
#pragma unroll
            for (int e = 0; e < 2; ++e)
                use(results[2 * (j * kOf + h) + e], from[(j * 8 - kFirst + e) * kTile.warpgroup_features()]);
        }
    }
}

// The results by rows of the gate that differ, and with residuals that the copy engine does not bring: through the box in
// fp32, some tokens at a time.
template <WgmmaTile kTile, int kCount>
__device__ __forceinline__ void apply_rows(float (&results)[kCount], const WgmmaArguments& args,
                                           const WgmmaPart& part, bool by_gate, const WgmmaDoor& door,
                                           int warp) {
    constexpr int kTokens = kTile.row_tokens(), kRounds = (kTile.tokens + kTokens - 1) / kTokens;
    const Epilogue& e = args.epilogue;
    const int end = args.adds_rows ? 2 * kRounds : kRounds;
    float* box = reinterpret_cast<float*>(door.box);
#pragma unroll 1
    for (int turn = by_gate ? 0 : kRounds; turn < end; ++turn) {
        const bool adds = turn >= kRounds;
        const int first = (adds ? turn - kRounds : turn) * kTokens;
        fill_rows<kTile>(box, adds ? e.residual : e.gate, args, {part.feature, part.token + first},
                         min(kTokens, kTile.tokens - first));
        door.meet();
        const auto use = [&]<int... kRound>(std::integer_sequence<int, kRound...>, auto combine) {
            ((first == kRound * kTokens ? use_rows<kTile, kRound * kTokens>(results, box, warp, combine)
                                        : void()),
             ...);
        };
        constexpr std::make_integer_sequence<int, kRounds> kAll;
        adds ? use(kAll, [](float& result, float element) { result += element; })
             : use(kAll, [](float& result, float element) { result *= element; });
        door.meet();
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
