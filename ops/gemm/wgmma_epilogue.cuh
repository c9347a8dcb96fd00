// gemm on wgmma: what a warpgroup does with its sums. They stay in registers until they are out's dtype, and leave as
// one box through shared memory, where rows are tokens again.
//
// A lane with g = lane / 4 and t = lane mod 4 holds in sums[4 j + 2 h + e] row g + 8 h of its warp's 16, token 8 j + 2 t
// + e. Rows are features; gated, those of h = 0 are the gate's and those of h = 1 up's, of the same eight features.
// What is made of them takes their place from the first on: sums[2 q + e] are the results of 8x8 matrix q. Gated, that
// is the q-th eight tokens; else h = q mod 2 of the (q / 2)-th.
#pragma once

#include "kit/ptx/ldmatrix.cuh"
#include "kit/ptx/shuffle.cuh"
#include "kit/ptx/stmatrix.cuh"
#include "kit/tensor_map.h"
#include "ops/gemm/wgmma_beside.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// What the products of a lane's two rows are multiplied by and what is added then, where -0 changes nothing; what multiplies
// the results.
struct RowTerms {
    float scale[2], bias[2] = {-0.0f, -0.0f}, gate[2] = {1.0f, 1.0f};
};
template <WgmmaTile kTile>
__device__ __forceinline__ RowTerms terms_of_all(const Scales& s) {
    return {.scale = {s.product, kTile.gated ? s.up : s.product}};
}
// The gate is that of the first token, whose row the others of the tile share, or not (gate_differs).
template <WgmmaTile kTile>
__device__ __forceinline__ RowTerms load_terms(const Epilogue& e, const Scales& s, const WgmmaPart& part,
                                               int warp, int features) {
    const auto load = [&](const auto& operand, int64_t begin, int feature, float absent) {
        return operand.data == nullptr || feature >= features
                   ? absent
                   : value_of(operand.dtype, load_bits(operand.dtype, operand.data, begin + feature));
    };
    const int first = part.feature + warp * (kTile.gated ? 8 : 16) + kit::accumulator_row(0),
              second = first + 8;
    const ByColumn &other_scale = kTile.gated ? e.up_channel_scale : e.channel_scale,
                   &other_bias = kTile.gated ? e.up_bias : e.bias;
    const int other = kTile.gated ? first : second;
    RowTerms terms = terms_of_all<kTile>(s);
    terms.scale[0] *= load(e.channel_scale, 0, first, 1.0f);
    terms.scale[1] *= load(other_scale, 0, other, 1.0f);
    terms.bias[0] = load(e.bias, 0, first, -0.0f);
    terms.bias[1] = load(other_bias, 0, other, -0.0f);
    if (e.gate.data == nullptr) return terms;
    const int64_t begin = e.gate.offset(static_cast<unsigned>(part.token));
    const bool single = e.gate.map.single;
    terms.gate[0] = load(e.gate, begin, single ? 0 : first, 1.0f);
    if constexpr (!kTile.gated) terms.gate[1] = load(e.gate, begin, single ? 0 : second, 1.0f);
    return terms;
}

// use(q, count) for matrices q to q + count - 1: by fours, and what is left.
template <int kMatrices, class F>
__device__ __forceinline__ void by_fours(F use) {
#pragma unroll
    for (int q = 0; q + 4 <= kMatrices; q += 4) use(q, std::integral_constant<int, 4>{});
    constexpr int kLeft = kMatrices % 4;
    if constexpr (kLeft >= 2) use(kMatrices - kLeft, std::integral_constant<int, 2>{});
    if constexpr (kLeft % 2 == 1) use(kMatrices - 1, std::integral_constant<int, 1>{});
}

// A box of a warpgroup in shared memory: a row a token, swizzled by its own width.
template <WgmmaTile kTile, int kElement>
struct StagedBox {
    static constexpr int kRow = kTile.warpgroup_features() * kElement;
    static constexpr auto kSwizzle = static_cast<kit::Swizzle>(kRow);
    // Eight tokens further, which the swizzle does not see.
    static constexpr int kGroup = 8 * kRow;
    static constexpr int kOfGroup = kTile.gated ? 1 : 2;  // matrices

    __device__ static int at(int token, int byte) {
        return static_cast<int>(kit::swizzled(kSwizzle, static_cast<unsigned>(token * kRow + byte)));
    }
    // Of 16-bit elements, the row of the first four matrices that the lane gives ldmatrix and stmatrix.
    __device__ static int matrix_row(int warp) {
        const int lane = kit::lane_index();
        return kTile.gated ? at(lane, warp * 16)
                           : at(lane / 16 * 8 + lane % 8, warp * 32 + lane / 8 % 2 * 16);
    }
};

// The residuals, which the copy engine has brought into the box.
template <WgmmaTile kTile, int kCount>
__device__ __forceinline__ void add_residuals(float (&results)[kCount], DType dtype, const char* staged,
                                              int warp) {
    using Box = StagedBox<kTile, 2>;
    const char* row = staged + Box::matrix_row(warp);
    const auto add = [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        by_fours<kTile.results() / 2>([&](int q, auto count) {
            uint32_t pairs[count()];
            const char* from = row + q / Box::kOfGroup * Box::kGroup;
            if constexpr (count() == 4) kit::ldmatrix_x4_trans(pairs, from);
            if constexpr (count() == 2) kit::ldmatrix_x2_trans(pairs, from);
            if constexpr (count() == 1) kit::ldmatrix_x1_trans(pairs, from);
#pragma unroll
            for (int i = 0; i < count(); ++i) {
                kit::Vec<T, 2> two;
                memcpy(static_cast<void*>(&two), &pairs[i], 4);
                results[2 * (q + i)] += kit::to_float(two[0]);
                results[2 * (q + i) + 1] += kit::to_float(two[1]);
            }
        });
    };
    dtype == DType::bf16 ? add(static_cast<kit::bf16*>(nullptr)) : add(static_cast<kit::half*>(nullptr));
}

// A lane's codes are two tokens of one feature, from each of two matrices. Exchanged within groups of four lanes they
// are four neighbouring features of one token.
__device__ __forceinline__ uint32_t exchange_codes(uint32_t codes) {
    const int lane = kit::lane_index();
    codes = __byte_perm(codes, kit::shuffle_xor(codes, 4), (lane & 4) != 0 ? 0x3715 : 0x6240);
    return __byte_perm(codes, kit::shuffle_xor(codes, 8), (lane & 8) != 0 ? 0x3276 : 0x5410);
}

template <class T, WgmmaTile kTile, int kCount>
__device__ __forceinline__ void stage_results(const float (&results)[kCount], char* staged, int warp) {
    using Box = StagedBox<kTile, sizeof(T)>;
    constexpr int kMatrices = kTile.results() / 2, kOf = Box::kOfGroup;
    if constexpr (sizeof(T) == 2) {
        char* row = staged + Box::matrix_row(warp);
        by_fours<kMatrices>([&](int q, auto count) {
            uint32_t pairs[count()];
#pragma unroll
            for (int i = 0; i < count(); ++i) {
                const float two[2] = {results[2 * (q + i)], results[2 * (q + i) + 1]};
                const auto stored = kit::from_floats<T>(two);
                memcpy(&pairs[i], static_cast<const void*>(&stored), 4);
            }
            kit::stmatrix_trans<count()>(row + q / kOf * Box::kGroup, pairs);
        });
    } else {
        const int lane = kit::lane_index(), second = lane >> 3 & 1;  // which of two matrices
        const int token = 8 * second + 2 * (lane & 3) + (lane >> 2 & 1);
        char* row = staged + Box::at(token, warp * 8 * kOf + (lane >> 4) * 4);
#pragma unroll
        for (int i = 0; i < (kMatrices + 1) / 2; ++i) {
            const int q = i / kOf * 2 * kOf + i % kOf, next = q + kOf;
            const bool pair = next < kMatrices;
            const float four[4] = {results[2 * q], results[2 * q + 1], pair ? results[2 * next] : 0.0f,
                                   pair ? results[2 * next + 1] : 0.0f};
            const auto stored = kit::from_floats<T>(four);
            uint32_t codes;
            memcpy(&codes, static_cast<const void*>(&stored), 4);
            codes = exchange_codes(codes);
            if (pair || second == 0)
                kit::store(reinterpret_cast<uint32_t*>(row + q / kOf * Box::kGroup + q % kOf * 8), codes);
        }
    }
}

// Which of the two weights comes first in memory: `swapped` sums change places. The compiler is kept from making this a
// choice for each of them, which would be as many instructions as all the rest of a gate. kApart: between a sum of one and the
// other's.
template <int kApart, int kCount>
__device__ __forceinline__ void order_sums(float (&sums)[kCount], bool swapped) {
    if (!swapped) return;
    asm volatile("");
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        const float other = sums[i ^ kApart];
        if (i % (2 * kApart) < kApart) sums[i ^ kApart] = sums[i], sums[i] = other;
    }
}

// The products by the scales of their tokens, of which `token` is the tile's first and `tokens` are all. A lane reads those of
// every 32nd token; the others ask it.
template <WgmmaTile kTile, int kCount>
__device__ __forceinline__ void scale_tokens(float (&sums)[kCount], const float* scales, int token,
                                             int tokens) {
    float held[(kTile.tokens + 31) / 32];
#pragma unroll
    for (int i = 0; i < static_cast<int>(std::size(held)); ++i)
        held[i] = kit::load(scales + min(token + 32 * i + kit::lane_index(), tokens - 1));
#pragma unroll
    for (int i = 0; i < kTile.tokens / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            const float scale = kit::shuffle(held[i / 4], i % 4 * 8 + kit::accumulator_column(e));
            sums[4 * i + e] *= scale;
            sums[4 * i + 2 + e] *= scale;
        }
    }
}

// The products of the lane's rows, scaled, with their bias, through the activation; gated, one times the other.
template <WgmmaTile kTile, int kCount>
__device__ __forceinline__ void make_results(float (&sums)[kCount], const Epilogue& e, const RowTerms& terms,
                                             bool plain) {
    if (!plain) {
#pragma unroll
        for (int i = 0; i < kCount; ++i)
            sums[i] = fmaf(sums[i], terms.scale[i / 2 % 2], terms.bias[i / 2 % 2]);
    }
    with_activation(e, [&](auto activate) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            if (!kTile.gated || i % 4 < 2) sums[i] = activate(sums[i]);
        }
    });
    if constexpr (kTile.gated) {
#pragma unroll
        for (int i = 0; i < kTile.results(); ++i)
            sums[i] = sums[i / 2 * 4 + i % 2] * sums[i / 2 * 4 + 2 + i % 2];
    }
}

// The results by the gate of all tokens.
template <WgmmaTile kTile, int kCount>
__device__ __forceinline__ void scale_results(float (&results)[kCount], const RowTerms& terms) {
#pragma unroll
    for (int i = 0; i < kTile.results(); ++i) results[i] *= terms.gate[kTile.gated ? 0 : i / 2 % 2];
}

// Parts of sums, to where a token is a row: lanes' rows of eight features, gated those of b and of up in turn.
template <WgmmaTile kTile, int kCount>
__device__ __forceinline__ void park_sums(float* parked, float (&sums)[kCount], bool swapped, int group,
                                          int warp) {
    if constexpr (kTile.gated) order_sums<2>(sums, swapped);
    float* to = parked + kit::accumulator_column(0) * WgmmaTile::kParkedStride + group * 64 + warp * 16 +
                kit::accumulator_row(0);
#pragma unroll
    for (int i = 0; i < kCount; ++i)
        to[(i / 4 * 8 + i % 2) * WgmmaTile::kParkedStride + i / 2 % 2 * 8] = sums[i];
}

// Everything between the products and the box. Each step is one pass over the registers, so that its choices are made
// once a tile. `parity`: of the residuals' phase, where the copy engine brings them. `place`: gives the WgmmaPart. kScaled: there
// may be scales of tokens.
template <WgmmaTile kTile, bool kScaled, int kCount, class Place>
__device__ __forceinline__ void finish_sums(float (&sums)[kCount], const WgmmaArguments& args,
                                            const Scales& s, const RowTerms& terms, const WgmmaDoor& door,
                                            int warp, unsigned parity, Place place) {
    const Epilogue& e = args.epilogue;
    door.enter();
    if constexpr (kTile.gated) order_sums<2>(sums, args.swapped);
    if (kScaled && e.token_scale != nullptr)
        scale_tokens<kTile>(sums, e.token_scale, place().token, args.tokens);
    make_results<kTile>(sums, e, terms, args.plain);
    if (e.gate.data != nullptr || args.adds_rows) {
        const WgmmaPart part = place();
        const bool differs = gate_differs(args, part.token, kTile.tokens);
        if (!differs && e.gate.data != nullptr) scale_results<kTile>(sums, terms);
        if (differs || args.adds_rows) {
            apply_rows<kTile>(sums, args, part, differs, door, warp);
            door.leave();
            door.enter();
        }
    }
    if (args.carried) {
        kit::mbarrier_wait(door.landed, parity);
        add_residuals<kTile>(sums, e.residual.dtype, door.box, warp);
    }
    if (e.out_scale != nullptr) {
#pragma unroll
        for (int i = 0; i < kTile.results(); ++i) sums[i] *= s.inverse_out;
    }
    // A dtype is chosen once a tile; fp32 has left above.
    kit::with_one_of<kit::bf16, kit::half, kit::e4m3, kit::e5m2>(e.out_dtype, [&](auto* type) {
        stage_results<std::remove_pointer_t<decltype(type)>, kTile>(sums, door.box, warp);
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
