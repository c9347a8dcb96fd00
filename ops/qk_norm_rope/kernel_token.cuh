// qk_norm_rope's kernel for Q and K alone, of whole vectors.
#pragma once

#include "ops/qk_norm_rope/kernel.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kTokenThreads = 512;
// Registers for as many threads as two such blocks have; a thread's units of fp32 take more.
template <class T>
inline constexpr int kTokenBlocks = sizeof(T) == 2 ? 2 : 1;

// Cosines and sines of a unit's pairs as a table of heads has them.
template <class T>
using HeldTurns = kit::Words<T, kit::kTurnWidth>[2];

// Asks for those of T; of another dtype, or in quads apart, they are asked for after the sums, from L2, which is told of them.
template <class T>
__device__ __forceinline__ void ask_turns(const kit::Rotation& r, const QkNormRopeParams& p,
                                          const HeadPlace& at, int unit, HeldTurns<T>& held) {
#pragma unroll
    for (int which = 0; which < 2; ++which) {
        const HeadsAt& table = p.table[which];
        if (p.tables_held) {
            held[which] =
                kit::load_words<kit::kTurnWidth>(head_of<const T>(table, at) + unit * kit::kTurnWidth);
        } else {
            const std::int64_t head = at.batch * table.batch + at.token * table.token + at.head * table.head;
            announce(p.table_dtype, table.data,
                     head + kit::quad_pair(r.interleaved, unit, kit::turn_units(r), 0));
        }
    }
}
template <class T>
__device__ __forceinline__ kit::UnitTurns widened(const kit::Words<T, kit::kTurnWidth>& held) {
    kit::UnitTurns turns;
    // Opaque, so that not K's wait in fp32 while Q's are used.
    kit::to_floats(kit::as_vector<T, kit::kTurnWidth>(kit::opaque<T, kit::kTurnWidth>(held)), turns.at);
    return turns;
}

// What     q_out = rope(norm(q)), k_out = rope(norm(k))
// Mapping  a block is a token. A thread has one unit of a head of Q and the same of K's head of that number, so that the
//          cosines and sines of a head are asked for once. Both and these are on their way before it waits for any, and
//          L2 knows of the weights; the angles that heads share and the sums of the warps meet at one barrier
// Traffic  Q and K once in and once out, tables of heads once: bound by memory
// Needs    units, weights and tables of heads of whole, aligned vectors, units as many of Q and of K as threads at most; of
//          a norm of heads a power of two of a head, up to 32; outputs as qk_norm_rope
template <class T>
__global__ void __launch_bounds__(kTokenThreads, kTokenBlocks<T>)
    qk_norm_rope_token(__grid_constant__ const kit::Rotation r, __grid_constant__ const QkNormRopeParams p) {
    auto* turns = kit::dynamic_shared<float>();
    HeadPlace at{};
    at.batch = p.sequence.quotient(blockIdx.x);
    at.token = blockIdx.x - at.batch * p.sequence.divisor;
    at.head = p.head_units.quotient(threadIdx.x);
    const kit::UnitPlace place =
        kit::unit_place(r, static_cast<int>(threadIdx.x - at.head * p.head_units.divisor));
    const bool there[2] = {at.head < p.heads_before_k, at.head < p.heads_before_v - p.heads_before_k};
    const bool of_heads = p.table[0].data != nullptr;
    const bool turned = (there[0] || there[1]) && place.turned >= 0 && at.token >= p.prefix;
    const kit::L2Policy policy = kit::l2_policy(p.keep);

    kit::dependency_wait();
    kit::dependents_launch();
    kit::Unit<T> units[2];
#pragma unroll
    for (at.part = 0; at.part < 2; ++at.part) {
        if (!there[at.part]) continue;
        kit::load_unit<true>(head_of<const T>(p.in[at.part], at), place, units[at.part], policy);
        announce_weight(p, at, place);
    }
    HeldTurns<T> held = {};
    if (!of_heads) {
        fill_angles(r, p, blockIdx.x, 1, turns);
    } else if (turned) {
        ask_turns<T>(r, p, at, place.turned, held);
    }

    QkSums sums = AddQkSums::identity();
#pragma unroll
    for (int part = 0; part < 2; ++part) {
        if (there[part]) sums.at[part] = squares(units[part]);
    }
    if (p.norm == NormOver::row) {
        kit::BlockGroup block{.lanes = static_cast<int>(blockDim.x)};
        sums = block.reduce(sums, AddQkSums{});
    } else {
        sums = kit::warp_reduce(sums, AddQkSums{}, static_cast<int>(p.head_units.divisor));
        __syncthreads();
    }
#pragma unroll
    for (at.part = 0; at.part < 2; ++at.part) {
        if (!there[at.part]) continue;
        float low[kit::kTurnWidth], high[kit::kTurnWidth];
        kit::unit_floats(units[at.part], 0, low);
        kit::unit_floats(units[at.part], 1, high);
        scale_unit<true, true>(p, at, place, rsqrtf(sums.at[at.part] / p.counts[at.part] + p.eps), low, high);
        if (turned) {
            const bool as_held = of_heads && p.tables_held;
            const kit::UnitTurns cos = as_held ? widened<T>(held[0])
                                               : unit_turns<true, true>(r, p, 0, at, place.turned, turns),
                                 sin = as_held ? widened<T>(held[1])
                                               : unit_turns<true, true>(r, p, 1, at, place.turned, turns);
            kit::turn_unit(r.interleaved, low, high, cos, sin);
        }
        store_to<true>(head_of<T>(p.out[at.part], at), place, low, high);
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
