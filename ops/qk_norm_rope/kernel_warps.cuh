// qk_norm_rope's kernel for heads that have nothing in common but their token: each is normed by itself, or not at all.
#pragma once

#include "ops/qk_norm_rope/kernel.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// Warps of K and V have less to do than those of Q: a small block waits for few.
inline constexpr int kWarpThreads = 64;
inline constexpr int kWarpBlocks = 8;  // that a thread has registers for, 128 at most
inline constexpr int kWarpsResident = kWarpBlocks * kWarpThreads / 32;
inline constexpr int kWarpUnits = 4;  // of a lane, at most

// Sums of squares of a lane's units.
struct UnitSums {
    float at[kWarpUnits];
};
struct AddUnitSums {
    __device__ __forceinline__ UnitSums operator()(const UnitSums& a, const UnitSums& b) const {
        UnitSums sums;
#pragma unroll
        for (int i = 0; i < kWarpUnits; ++i) sums.at[i] = a.at[i] + b.at[i];
        return sums;
    }
};

// The share of a token's heads that a warp takes.
struct WarpShare {
    unsigned batch, token;
    int part;              // 0: of Q, 1: of K, 2: of V
    unsigned head, apart;  // the calling lane's first head, and how far the next one is
    int heads;             // of the lane
};
__device__ __forceinline__ WarpShare warp_share(const QkNormRopeParams& p, unsigned token, unsigned share) {
    WarpShare at{};
    at.batch = p.sequence.quotient(token);
    at.token = token - at.batch * p.sequence.divisor;
    at.part = share >= p.warps.before_v ? 2 : share >= p.warps.before_k ? 1 : 0;
    share -= at.part == 2 ? p.warps.before_v : at.part == 1 ? p.warps.before_k : 0;
    at.apart = 32u >> p.lanes_log2;
    at.head = share * p.warps.units * at.apart + (threadIdx.x % 32 >> p.lanes_log2);
    const unsigned heads = at.part == 0 ? p.heads_before_k : p.heads_before_v - p.heads_before_k;
    const unsigned left = (heads + at.apart - 1 - at.head) >> (5 - p.lanes_log2);
    at.heads = static_cast<int>(at.head >= heads ? 0 : left < p.warps.units ? left : p.warps.units);
    return at;
}
// Where a lane's first head is, and how far the next one.
template <class T>
struct LaneHeads {
    T* first;  // null: nowhere
    std::int64_t apart;
};
template <class T>
__device__ __forceinline__ LaneHeads<T> lane_heads(const HeadsAt& heads, const WarpShare& at) {
    auto* first = static_cast<T*>(heads.data);
    if (first != nullptr) first += at.batch * heads.batch + at.token * heads.token + at.head * heads.head;
    return {first, heads.head * at.apart};
}

// Cosines and sines of a token, pair by pair, worked out by the lanes of the warp that asks for them. The first of a lane
// is on its way.
__device__ __forceinline__ void fill_warp(const kit::Rotation& r, const QkNormRopeParams& p,
                                          const WarpShare& at, float frequency, std::int64_t position,
                                          float* turns) {
    const bool parts = p.section2 + p.section3 > 0;
    for (int pair = static_cast<int>(threadIdx.x % 32); pair < r.half; pair += 32) {
        const float now = frequency;
        const std::int64_t here = position;
        if (pair + 32 < r.half) {
            frequency = ask_frequency(r, p, pair + 32);
            if (parts) position = ask_position(p, part_of(p, r, pair + 32), at.batch, at.token);
        }
        float c, s;
        cosine_sine(r, pair, now, here, c, s);
        turns[pair] = c;
        turns[p.turn_stride + pair] = s;
    }
    __syncwarp();
}

// What the elements of a unit's pairs, a and b, are multiplied by whichever head they are of: their weights times the
// cosines and sines. Of a unit that does not turn the weights alone, of its two vectors.
struct UnitFactors {
    float a[kit::kTurnWidth], b[kit::kTurnWidth], a_sin[kit::kTurnWidth], b_sin[kit::kTurnWidth];
};
// `use(a, b, i)` for each of a unit's pairs.
template <class F>
__device__ __forceinline__ void each_pair(bool interleaved, float (&low)[kit::kTurnWidth],
                                          float (&high)[kit::kTurnWidth], F use) {
    if (interleaved) {
#pragma unroll
        for (int i = 0; i < kit::kQuad; ++i) {
            use(low[2 * i], low[2 * i + 1], i);
            use(high[2 * i], high[2 * i + 1], kit::kQuad + i);
        }
    } else {
#pragma unroll
        for (int i = 0; i < kit::kTurnWidth; ++i) use(low[i], high[i], i);
    }
}
template <class T>
__device__ __forceinline__ UnitFactors unit_factors(const kit::Rotation& r, const QkNormRopeParams& p,
                                                    const kit::Unit<T>& weight, bool weighted, int turned,
                                                    const float* turns) {
    UnitFactors f;
    kit::unit_floats(weight, 0, f.a);
    kit::unit_floats(weight, 1, f.b);
    if (!weighted) {
#pragma unroll
        for (int i = 0; i < kit::kTurnWidth; ++i) f.a[i] = f.b[i] = 1.0f;
    } else if (p.weight_offset != 0.0f) {
#pragma unroll
        for (int i = 0; i < kit::kTurnWidth; ++i) f.a[i] += p.weight_offset, f.b[i] += p.weight_offset;
    }
    if (turned < 0) return f;
    float cos[kit::kTurnWidth], sin[kit::kTurnWidth], low[kit::kTurnWidth], high[kit::kTurnWidth];
    memcpy(low, f.a, sizeof(low)), memcpy(high, f.b, sizeof(high));
#pragma unroll
    for (int quad = 0; quad < 2; ++quad) {
        const float* from = turns + kit::quad_pair(r.interleaved, turned, kit::turn_units(r), quad);
        const auto c = kit::load_aligned<kit::kQuad>(from),
                   s = kit::load_aligned<kit::kQuad>(from + p.turn_stride);
#pragma unroll
        for (int i = 0; i < kit::kQuad; ++i)
            cos[quad * kit::kQuad + i] = c[i], sin[quad * kit::kQuad + i] = s[i];
    }
    each_pair(r.interleaved, low, high, [&](float a, float b, int i) {
        f.a[i] = a * cos[i], f.a_sin[i] = a * sin[i];
        f.b[i] = b * cos[i], f.b_sin[i] = b * sin[i];
    });
    return f;
}
__device__ __forceinline__ void apply(const UnitFactors& f, float scale, bool turns, bool interleaved,
                                      float (&low)[kit::kTurnWidth], float (&high)[kit::kTurnWidth]) {
#pragma unroll
    for (int i = 0; i < kit::kTurnWidth; ++i) low[i] *= scale, high[i] *= scale;
    if (turns) {
        each_pair(interleaved, low, high, [&](float& a, float& b, int i) {
            const float first = a * f.a[i] - b * f.b_sin[i];
            b = b * f.b[i] + a * f.a_sin[i];
            a = first;
        });
    } else {
#pragma unroll
        for (int i = 0; i < kit::kTurnWidth; ++i) low[i] *= f.a[i], high[i] *= f.b[i];
    }
}

// What     q_out = rope(norm(q)); k_out and row slots[t] of k_cache = rope(norm(k)); v_out and v_cache = v
// Mapping  a warp takes neighbouring heads of one token, all of Q, K or V, a head a power of two of its lanes. A lane has
//          the same unit of up to 4 heads: they, its weights, slot and first angle are asked for before it waits for any.
//          The warp works out its token's angles for itself, so that no warp waits for another; weights, cosines and
//          sines become factors of a unit once for all heads
// Traffic  Q, K and V once, and once for every place that they go to: bound by memory
// Needs    units of whole, aligned vectors, up to 32 of a head; norm head or none, with weights of T that all heads share;
//          no tables of heads; fewer than 2^31 rows of a cache; outputs as qk_norm_rope
template <class T>
__global__ void __launch_bounds__(kWarpThreads, kWarpBlocks)
    qk_norm_rope_warps(__grid_constant__ const kit::Rotation r, __grid_constant__ const QkNormRopeParams p) {
    const unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, token = p.warps.token.quotient(warp);
    const int lane = static_cast<int>(threadIdx.x % 32), unit = lane & ((1 << p.lanes_log2) - 1);
    WarpShare at = warp_share(p, token, warp - token * p.warps.token.divisor);
    if (unit >= kit::head_units(r)) at.heads = 0;
    const bool worked = at.part < 2, normed = worked && p.norm == NormOver::head;
    const bool turns_here = worked && at.token >= p.prefix;
    const kit::UnitPlace place = kit::unit_place(r, unit);
    const int turned = turns_here ? place.turned : -1;
    const LaneHeads<const T> from = lane_heads<const T>(p.in[at.part], at);
    const kit::L2Policy policy = kit::l2_policy(p.keep);
    float* turns = kit::dynamic_shared<float>() + threadIdx.x / 32 * 2 * static_cast<unsigned>(p.turn_stride);

    kit::dependency_wait();
    kit::dependents_launch();
    if (token >= p.tokens) return;
    std::int64_t position = 0;
    float frequency = 0.0f;
    if (turns_here && lane < r.half) {
        position = ask_position(p, part_of(p, r, lane), at.batch, at.token);
        frequency = ask_frequency(r, p, lane);
    }
    kit::Unit<T> units[kWarpUnits] = {}, weight{};
#pragma unroll
    for (int i = 0; i < kWarpUnits; ++i) {
        if (i < at.heads) kit::load_unit<true>(from.first + i * from.apart, place, units[i], policy);
    }
    const auto* weights = static_cast<const T*>(worked ? p.weight[at.part].data : nullptr);
    if (weights != nullptr && at.heads > 0) kit::load_unit<true>(weights, place, weight);
    const CacheAt& cache = p.cache[at.part == 2];
    CacheRow row{-1, 0};
    float scale_of_head = 1.0f;
    if (at.part > 0 && cache.data != nullptr) {
        if (at.heads > 0) scale_of_head = cache_scale(cache, at.head);
        row = cache_row<true>(p, at.batch, at.token);
    }

    if (turns_here) fill_warp(r, p, at, frequency, position, turns);
    const UnitFactors factors = unit_factors(r, p, weight, weights != nullptr, turned, turns);
    UnitSums sums{};
    if (normed) {
#pragma unroll
        for (int i = 0; i < kWarpUnits; ++i) sums.at[i] = squares(units[i]);
        sums = kit::warp_reduce(sums, AddUnitSums{}, 1 << p.lanes_log2);
    }
    const LaneHeads<T> to = lane_heads<T>(p.out[at.part], at);
    const std::int64_t begin = row.page * cache.page + row.row * cache.row + at.head * cache.head;
#pragma unroll
    for (int i = 0; i < kWarpUnits; ++i) {
        if (i >= at.heads) break;
        float low[kit::kTurnWidth], high[kit::kTurnWidth];
        kit::unit_floats(units[i], 0, low);
        kit::unit_floats(units[i], 1, high);
        const float scale = normed ? rsqrtf(sums.at[i] * p.factors[at.part] + p.eps) : 1.0f;
        apply(factors, scale, turned >= 0, r.interleaved, low, high);
        if (to.first != nullptr) store_to<true>(to.first + kit::opaque(i * to.apart), place, low, high);
        if (row.page < 0) continue;
        if (i > 0 && cache.scale_step > 0)
            scale_of_head = cache_scale(cache, at.head + static_cast<unsigned>(i) * at.apart);
        store_to_cache<true, T>(cache, kit::opaque(begin + i * (cache.head * at.apart)), place, scale_of_head,
                                low, high);
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
