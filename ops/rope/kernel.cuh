// rope's kernel.
#pragma once

#include "kit/rotary.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kLeading = 4;  // axes before the heads: up to three of a batch, and the tokens

// Strides of the axes before the heads, and of the heads.
struct HeadStrides {
    std::int64_t axis[kLeading], head;
};

struct RopeParams {
    unsigned tokens;              // of the whole batch
    bool one_axis;                // the leading axes but the last have size 1
    kit::Divisor size[kLeading];  // the last is the tokens of one sequence
    HeadStrides x_strides, out_strides;
    std::int64_t position_stride[kLeading];
    const void* x;
    void* out;
    unsigned heads, heads_a_block;
    kit::Divisor head_units, token_units;  // of a head, of the heads that a block takes
    unsigned block_tokens;                 // a power of two
    bool keep;                             // L2 keeps x after all else (kit::L2Policy)
    bool wide_tables;                      // PyTorch's roundings are of products in fp32
};

// Where a token's heads and its position lie, and its place in its sequence.
struct RopeToken {
    std::int64_t from = 0, to = 0, position = 0;
    unsigned index = 0;
};
__device__ __forceinline__ RopeToken rope_token(const RopeParams& p, unsigned token) {
    RopeToken at;
    const auto step = [&](int axis, unsigned index) {
        at.from += index * p.x_strides.axis[axis];
        at.to += index * p.out_strides.axis[axis];
        at.position += index * p.position_stride[axis];
    };
    at.index = token;
    if (!p.one_axis) {
        unsigned rest = p.size[kLeading - 1].quotient(token);
        at.index = token - rest * p.size[kLeading - 1].divisor;
#pragma unroll
        for (int axis = kLeading - 2; axis >= 0; --axis) {
            const unsigned next = p.size[axis].quotient(rest);
            step(axis, rest - next * p.size[axis].divisor);
            rest = next;
        }
    }
    step(kLeading - 1, at.index);
    return at;
}

// What     each pair (a, b) of x's heads → (a·cos − b·sin, b·cos + a·sin) in out; other elements copied
// Mapping  a block takes up to 4 tokens and some of their heads: a thread asks for its unit, 8 pairs of a head
//          in two vectors, then takes part in the angles, which go to shared memory, one sincosf a pair and
//          token, and turns its unit when they are there (kit/rotary.cuh)
// Traffic  x and out once: bound by memory; the angles cost 1/heads of what each head's own would
// Needs    x and out the very same view, or apart; kWhole: units of whole, aligned vectors.
//          kSteps: PyTorch's bits, in kernels of their own, for as a branch it took the others ten registers of a thread
template <class T, bool kWhole, bool kSteps>
__global__ void __launch_bounds__(512)
    rope(__grid_constant__ const kit::Rotation r, __grid_constant__ const RopeParams p) {
    kit::Turns& turns = kit::block_shared<kit::Turns>();
    const unsigned first = blockIdx.x * p.block_tokens, first_head = blockIdx.y * p.heads_a_block;
    const unsigned tokens = p.tokens - first < p.block_tokens ? p.tokens - first : p.block_tokens;
    const unsigned units = tokens * p.token_units.divisor;
    // Every slot, so that the angles need no mask: those beyond the last token repeat it.
    const auto position = [&](unsigned at) -> std::int64_t {
        const RopeToken token = rope_token(p, first + (at < tokens ? at : tokens - 1));
        return r.positions != nullptr ? kit::position_at(r, token.position) : r.start + token.index;
    };

    const kit::L2Policy policy = kit::l2_policy(p.keep);

    kit::dependency_wait();
    kit::dependents_launch();
    for (unsigned i = threadIdx.x, round = 0; round == 0 || i < units; i += blockDim.x, ++round) {
        const unsigned slot = p.token_units.quotient(i), rest = i - slot * p.token_units.divisor;
        const unsigned head = p.head_units.quotient(rest), unit = rest - head * p.head_units.divisor;
        const bool there = i < units && first_head + head < p.heads;
        T* to = nullptr;
        kit::UnitPlace place{};
        kit::Unit<T> held;
        if (there) {
            place = kit::unit_place(r, static_cast<int>(unit));
            const RopeToken token = rope_token(p, first + slot);
            const T* from = static_cast<const T*>(p.x) + token.from + (first_head + head) * p.x_strides.head;
            to = static_cast<T*>(p.out) + token.to + (first_head + head) * p.out_strides.head;
            kit::load_unit<kWhole>(from, place, held, policy);
        }
        if (round == 0) {
            kit::fill_turns(r, turns, static_cast<int>(p.block_tokens), position);
            __syncthreads();
        }
        if (!there) continue;
        if constexpr (kSteps) {
            kit::finish_unit<kWhole>(r, to, place, held, turns.cos[slot], turns.sin[slot],
                                     kit::TurnInSteps<T>{.wide = p.wide_tables});
        } else {
            kit::finish_unit<kWhole>(r, to, place, held, turns.cos[slot], turns.sin[slot]);
        }
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
