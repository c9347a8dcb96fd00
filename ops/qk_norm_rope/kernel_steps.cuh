// qk_norm_rope with the bits of PyTorch's eager operators: their sum's order and every one of their roundings. Few calls ask
// for it: it is apart from the kernel, whose registers it leaves alone.
#pragma once

#include "ops/qk_norm_rope/kernel.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// A row of heads, all of one token or one alone.
template <class T>
struct NormedRow {
    const T* data;
    std::int64_t head_stride;
    int head_dim, count;  // elements of a head, of the row
};

// 1/sqrt(mean of squares + eps) by PyTorch's reduction of a contiguous fp32 tensor: 32 threads take vectors of four in turn
// and add what has the same place in them, then each its four sums, and then all theirs, from far to near. `lanes`
// neighbours, 8 or more, share a row; lane l stands for threads l, l + lanes, ... The whole warp calls it.
template <class T>
[[gnu::noinline]] __device__ float scale_in_steps(const NormedRow<T>& row, unsigned lane, unsigned lanes,
                                                  float factor, float eps) {
    float threads[4];
#pragma unroll 1
    for (unsigned own = 0; own < 32 / lanes; ++own) {
        float sums[4] = {0, 0, 0, 0};
#pragma unroll 1
        for (int at = static_cast<int>(4 * (lane + lanes * own)); at < row.count; at += 128) {
            const T* from = row.data + at / row.head_dim * row.head_stride + at % row.head_dim;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float x = kit::to_float(from[i]);
                sums[i] = __fadd_rn(sums[i], __fmul_rn(x, x));
            }
        }
        threads[own] = __fadd_rn(__fadd_rn(__fadd_rn(sums[0], sums[1]), sums[2]), sums[3]);
    }
#pragma unroll 1
    for (unsigned apart = 16 / lanes; apart > 0; apart /= 2) {
        for (unsigned own = 0; own < apart; ++own)
            threads[own] = __fadd_rn(threads[own], threads[own + apart]);
    }
    float sum = threads[0];
#pragma unroll 1
    for (unsigned apart = lanes / 2; apart > 0; apart /= 2)
        sum = __fadd_rn(sum, kit::shuffle_xor(sum, static_cast<int>(apart)));
    return rsqrtf(__fadd_rn(__fmul_rn(sum, factor), eps));
}

template <class T>
__device__ float head_scale_in_steps(const QkNormRopeParams& p, int head_dim, const HeadPlace& at) {
    const bool normed = at.there && at.part < 2;
    const NormedRow<T> row{normed ? head_of<const T>(p.in[at.part], at) : nullptr, 0, head_dim,
                           normed ? head_dim : 0};
    const float scale = scale_in_steps(row, at.lane, 1u << p.lanes_log2, p.factors[at.part == 1], p.eps);
    __syncwarp();  // a lane reads what its neighbours overwrite where the output is the input's view
    return scale;
}

// A warp for Q and one for K, for all of the block.
template <class T>
__device__ void row_scales_in_steps(const QkNormRopeParams& p, int head_dim, unsigned token,
                                    TokenRows& rows) {
    const unsigned part = threadIdx.x / 32;
    if (part < 2) {
        HeadPlace at{};
        at.batch = p.sequence.quotient(token);
        at.token = token - at.batch * p.sequence.divisor;
        const NormedRow<T> row{head_of<const T>(p.in[part], at), p.in[part].head, head_dim,
                               static_cast<int>(p.counts[part])};
        const float scale = scale_in_steps(row, threadIdx.x % 32, 32, p.factors[part], p.eps);
        if (threadIdx.x % 32 == 0) rows.scales[part] = scale;
    }
    __syncthreads();
}

// The norm and the rotation of a unit, each operator rounding to T, or in fp32 where the tables are.
template <class T>
__device__ void finish_in_steps(const kit::Rotation& r, const QkNormRopeParams& p, const HeadPlace& at,
                                const kit::UnitPlace& place, float scale, const float* turns, bool turned,
                                float (&unit)[2][kit::kTurnWidth]) {
    const WeightAt& weight = p.weight[at.part == 1];
    const std::int64_t begin = at.head * weight.head;
#pragma unroll 1
    for (int i = 0; p.norm != NormOver::none && i < 2 * kit::kTurnWidth; ++i) {
        const int half = i / kit::kTurnWidth, within = i % kit::kTurnWidth;
        if (within >= place.count[half]) continue;
        float n = __fmul_rn(unit[half][within], scale);
        if (weight.data != nullptr) {
            if (p.rounding == Rounding::eager_cast) n = kit::round_through<T>(n);
            const float w = kit::load_as(weight.dtype, weight.data, begin + place.at[half] + within);
            n = __fmul_rn(n, __fadd_rn(w, p.weight_offset));
        }
        unit[half][within] = kit::round_through<T>(n);
    }
    if (place.turned < 0 || !turned) return;
    const kit::UnitTurns cos = unit_turns<false>(r, p, 0, at, place.turned, turns),
                         sin = unit_turns<false>(r, p, 1, at, place.turned, turns);
    kit::turn_unit(r.interleaved, unit[0], unit[1], cos, sin,
                   kit::TurnInSteps<T>{.wide = p.wide_tables, .addcmul = p.addcmul});
#pragma unroll
    for (auto& half : unit) {
#pragma unroll
        for (float& element : half) element = kit::round_through<T>(element);
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
