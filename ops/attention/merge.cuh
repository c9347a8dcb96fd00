// Attention: the results of splits become a row.
#pragma once

#include "kit/convert.cuh"
#include "kit/ptx/approximate.cuh"
#include "kit/ptx/shuffle.cuh"
#include "ops/attention/params.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// Element offsets of a row's first column in out, and of its element of lse.
struct AttentionRowPlace {
    std::int64_t out, lse;
};

constexpr int kMergedAtOnce = 8;

// out = sum_s w_s part_s, w_s = exp2(lse_s) / sum exp2(lse), by a warp, of which lane s knows lse_s. part(s): where the
// columns of part s are, at most 32 of them. Parts are far away, so several are asked for at once; a lane takes four
// columns where rows have whole such pieces.
template <class T, class Part>
__device__ __forceinline__ void merge_row(const AttentionParams& p, int parts, float lse,
                                          const AttentionRowPlace& place, Part&& part) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    float top = lse;
#pragma unroll
    for (int i = 16; i > 0; i /= 2) top = fmaxf(top, kit::shuffle_xor(top, i));
    float weight = lse == minus_infinity() ? 0.0f : kit::exp2_approximate(lse - top), sum = weight;
#pragma unroll
    for (int i = 16; i > 0; i /= 2) sum += kit::shuffle_xor(sum, i);
    weight = sum == 0.0f ? 0.0f : weight / sum;
    if (p.lse != nullptr && lane == 0) p.lse[place.lse] = (top + log2f(sum)) * 0.693147180559945309f;

    T* out = static_cast<T*>(p.out) + place.out;
    const int width = p.head_dim % 4 == 0 ? 4 : 1;
    for (int first = 0; first < p.head_dim; first += 32 * width) {
        const int column = first + lane * width;
        float total[4] = {};
        for (int begin = 0; begin < parts; begin += kMergedAtOnce) {
            float4 some[kMergedAtOnce];
#pragma unroll
            for (int s = 0; s < kMergedAtOnce; ++s) {
                const float* at = part(min(begin + s, parts - 1)) + column;
                some[s] = column >= p.head_dim ? float4{}
                          : width == 4         ? *reinterpret_cast<const float4*>(at)
                                               : float4{*at, 0, 0, 0};
            }
#pragma unroll
            for (int s = 0; s < kMergedAtOnce; ++s) {
                const float w = kit::shuffle(weight, min(begin + s, 31));
                if (begin + s >= parts) continue;
                total[0] += w * some[s].x, total[1] += w * some[s].y;
                total[2] += w * some[s].z, total[3] += w * some[s].w;
            }
        }
        for (int i = 0; i < width && column < p.head_dim; ++i) out[column + i] = kit::from_float<T>(total[i]);
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
