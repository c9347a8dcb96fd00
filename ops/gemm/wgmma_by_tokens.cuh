// gemm on wgmma, of tiles whose rows are tokens: what a warpgroup does with its sums. They leave as panels of 64 tokens
// through shared memory.
//
// A lane with g = lane / 4 and t = lane mod 4 holds in sums[4 j + 2 h + e] token g + 8 h of its warp's 16, weights' row
// 8 j + 2 t + e. Gated, those of even j are the first matrix's in memory and those of odd j the other's, of the same eight
// features. What is made of them takes their place: results[4 q + 2 h + e] are of the q-th eight features.
#pragma once

#include "ops/gemm/wgmma_epilogue.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// One number for each feature of a tile: lane l has those of features l, l + 32 and so on, and the others ask it.
template <WgmmaTile kTile>
struct FeatureTerms {
    float held[kTile.features() / 32];

    // From element `begin` of the operand on; 0 beyond the last feature.
    __device__ __forceinline__ FeatureTerms(DType dtype, const void* data, int64_t begin, int feature,
                                            int features) {
#pragma unroll
        for (int i = 0; i < kTile.features() / 32; ++i) {
            const int at = feature + 32 * i + kit::lane_index();
            held[i] = at < features ? value_of(dtype, load_bits(dtype, data, begin + at)) : 0.0f;
        }
    }
    __device__ __forceinline__ FeatureTerms(const ByColumn& operand, const WgmmaPart& part, int features)
        : FeatureTerms(operand.dtype, operand.data, 0, part.feature, features) {}
    // Of the q-th eight features, the lane's first or second.
    __device__ __forceinline__ float of(int q, int e) const {
        return kit::shuffle(held[q / 4], q % 4 * 8 + kit::accumulator_column(e));
    }
};

// combine(value, term) for values[kFirst + kApart q + 2 h + e] and the terms of their features.
template <WgmmaTile kTile, int kFirst, int kApart, int kCount, class F>
__device__ __forceinline__ void use_terms(float (&values)[kCount], const FeatureTerms<kTile>& terms,
                                          F combine) {
#pragma unroll
    for (int q = 0; q < kTile.features() / 8; ++q) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            const float term = terms.of(q, e);
            combine(values[kFirst + kApart * q + e], term);
            combine(values[kFirst + kApart * q + 2 + e], term);
        }
    }
}

// The products of one matrix (kWhich: 1 is up's) by its channels' scales, with its bias.
template <WgmmaTile kTile, int kWhich, int kCount>
__device__ __forceinline__ void scale_features(float (&sums)[kCount], const ByColumn& scale,
                                               const ByColumn& bias, const WgmmaPart& part, int features) {
    constexpr int kApart = kTile.gated ? 8 : 4;
    if (scale.data != nullptr) {
        use_terms<kTile, 4 * kWhich, kApart>(sums, FeatureTerms<kTile>(scale, part, features),
                                             [](float& sum, float term) { sum *= term; });
    }
    if (bias.data != nullptr) {
        use_terms<kTile, 4 * kWhich, kApart>(sums, FeatureTerms<kTile>(bias, part, features),
                                             [](float& sum, float term) { sum += term; });
    }
}

// As make_results of wgmma_epilogue.cuh.
template <WgmmaTile kTile, int kCount>
__device__ __forceinline__ void make_token_results(float (&sums)[kCount], const WgmmaArguments& args,
                                                   const Scales& s, const WgmmaPart& part, int token) {
    const Epilogue& e = args.epilogue;
    if (!args.plain || e.token_scale != nullptr) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const float by =
                e.token_scale != nullptr && token + 8 * h < args.tokens ? e.token_scale[token + 8 * h] : 1.0f;
#pragma unroll
            for (int i = 0; i < kCount; ++i) {
                if (i / 2 % 2 == h) sums[i] *= by * (kTile.gated && i / 4 % 2 == 1 ? s.up : s.product);
            }
        }
        scale_features<kTile, 0>(sums, e.channel_scale, e.bias, part, args.features);
        if constexpr (kTile.gated)
            scale_features<kTile, 1>(sums, e.up_channel_scale, e.up_bias, part, args.features);
    }
    with_activation(e, [&](auto activate) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            if (!kTile.gated || i / 4 % 2 == 0) sums[i] = activate(sums[i]);
        }
    });
    if constexpr (kTile.gated) {
#pragma unroll
        for (int i = 0; i < kTile.results(); ++i)
            sums[i] = sums[i / 4 * 8 + i % 4] * sums[i / 4 * 8 + 4 + i % 4];
    }
}

// The results by a gate's rows, or with residuals, that the tokens do not share and the copy engine does not bring: lanes read
// what is theirs, eight features of a token by four.
template <WgmmaTile kTile, int kCount>
__device__ __forceinline__ void apply_token_rows(float (&results)[kCount], const WgmmaArguments& args,
                                                 bool by_gate, const WgmmaPart& part, int token) {
    const int first = part.feature + kit::accumulator_column(0);
#pragma unroll 1
    for (int turn = by_gate ? 0 : 1; turn < (args.adds_rows ? 2 : 1); ++turn) {
        const RowsBeside& rows = turn == 1 ? args.epilogue.residual : args.epilogue.gate;
        const int64_t begin[2] = {rows.offset(static_cast<unsigned>(min(token, args.tokens - 1))),
                                  rows.offset(static_cast<unsigned>(min(token + 8, args.tokens - 1)))};
#pragma unroll
        for (int i = 0; i < kTile.results(); ++i) {
            const int feature = rows.map.single ? 0 : min(first + i / 4 * 8 + i % 2, args.features - 1);
            const float element =
                value_of(rows.dtype, load_bits(rows.dtype, rows.data, begin[i / 2 % 2] + feature));
            results[i] = turn == 1 ? results[i] + element : results[i] * element;
        }
    }
}

// The box's panels, whose rows are tokens, swizzled by their width: where the lane's first of the q-th eight features is, of
// its first or second token.
template <WgmmaTile kTile, class T>
struct TokenPanels {
    static constexpr int kElement = sizeof(T), kRow = kTile.panel_row_bytes(kElement);
    char* row;
    int mask;  // of the swizzle, which eight rows further is the same

    __device__ __forceinline__ TokenPanels(char* box, int warp)
        : row(box + (warp * 16 + kit::accumulator_row(0)) * kRow),
          mask(kit::accumulator_row(0) * kRow / 128 % (kRow / 16) * 16) {}
    __device__ __forceinline__ kit::Vec<T, 2>* at(int q, int h) const {
        constexpr int kOfPanel = kRow / (8 * kElement);
        const int byte = (q % kOfPanel * 8 + kit::accumulator_column(0)) * kElement;
        char* panel = row + q / kOfPanel * kTile.warpgroup_tokens() * kRow;
        return reinterpret_cast<kit::Vec<T, 2>*>(panel + h * 8 * kRow + (byte ^ mask));
    }
};

template <class T, WgmmaTile kTile, int kCount>
__device__ __forceinline__ void add_token_residuals(float (&results)[kCount], char* box, int warp) {
    const TokenPanels<kTile, T> panels(box, warp);
#pragma unroll
    for (int i = 0; i < kTile.results(); i += 2) {
        const kit::Vec<T, 2> two = *panels.at(i / 4, i / 2 % 2);
        results[i] += kit::to_float(two[0]);
        results[i + 1] += kit::to_float(two[1]);
    }
}

template <class T, WgmmaTile kTile, int kCount>
__device__ __forceinline__ void stage_token_results(const float (&results)[kCount], char* box, int warp) {
    const TokenPanels<kTile, T> panels(box, warp);
#pragma unroll
    for (int i = 0; i < kTile.results(); i += 2) {
        const float two[2] = {results[i], results[i + 1]};
        *panels.at(i / 4, i / 2 % 2) = kit::from_floats<T>(two);
    }
}

// Parts of sums, to where a token is a row.
template <WgmmaTile kTile, int kCount>
__device__ __forceinline__ void park_by_tokens(float* parked, float (&sums)[kCount], bool swapped, int group,
                                               int warp) {
    if constexpr (kTile.gated) order_sums<4>(sums, swapped);
    const int token = group * kTile.warpgroup_tokens() + warp * 16 + kit::accumulator_row(0);
    float* to = parked + token * WgmmaTile::kParkedStride + kit::accumulator_column(0);
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
        *reinterpret_cast<float2*>(to + i / 2 % 2 * 8 * WgmmaTile::kParkedStride + i / 4 * 8) =
            float2{sums[i], sums[i + 1]};
    }
}

// As finish_sums: everything between the products and the box.
template <WgmmaTile kTile, int kCount>
__device__ __forceinline__ void finish_by_tokens(float (&sums)[kCount], const WgmmaArguments& args,
                                                 const Scales& s, const WgmmaDoor& door, int warp,
                                                 unsigned parity, const WgmmaPart& part) {
    const Epilogue& e = args.epilogue;
    const int token = part.token + warp * 16 + kit::accumulator_row(0);
    door.enter();
    if constexpr (kTile.gated) order_sums<4>(sums, args.swapped);
    make_token_results<kTile>(sums, args, s, part, token);
    const bool by_gate = e.gate.data != nullptr &&
                         (e.gate.map.single || gate_differs(args, part.token, kTile.warpgroup_tokens()));
    if (e.gate.data != nullptr && !by_gate) {
        const int64_t begin = e.gate.offset(static_cast<unsigned>(min(part.token, args.tokens - 1)));
        use_terms<kTile, 0, 4>(
            sums, FeatureTerms<kTile>(e.gate.dtype, e.gate.data, begin, part.feature, args.features),
            [](float& result, float term) { result *= term; });
    }
    if (by_gate || args.adds_rows) apply_token_rows<kTile>(sums, args, by_gate, part, token);
    if (args.carried) {
        kit::mbarrier_wait(door.landed, parity);
        kit::with_one_of<kit::bf16, kit::half>(e.residual.dtype, [&](auto* type) {
            add_token_residuals<std::remove_pointer_t<decltype(type)>, kTile>(sums, door.box, warp);
        });
    }
    if (e.out_scale != nullptr) {
#pragma unroll
        for (int i = 0; i < kTile.results(); ++i) sums[i] *= s.inverse_out;
    }
    kit::with_one_of<kit::bf16, kit::half, kit::e4m3, kit::e5m2>(e.out_dtype, [&](auto* type) {
        stage_token_results<std::remove_pointer_t<decltype(type)>, kTile>(sums, door.box, warp);
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
