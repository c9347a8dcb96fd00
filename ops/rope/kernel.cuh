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
    bool eager, wide_tables;               // PyTorch's roundings; its products in fp32
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
// Needs    x and out the very same view, or apart; kWhole: units of whole, aligned vectors
template <class T, bool kWhole>
__global__ void __launch_bounds__(512)
    rope(__grid_constant__ const kit::Rotation r, __grid_constant__ const RopeParams p) {
    kit::Turns& turns = kit::block_shared<kit::Turns>();
    const unsigned first = blockIdx.x * p.block_tokens, first_head = blockIdx.y * p.heads_a_block;
    const unsigned tokens = p.tokens - first < p.block_tokens ? p.tokens - first : p.block_tokens;
    const unsigned units = tokens * p.token_units.divisor;

    unsigned i = threadIdx.x, slot = 0;
    T* to = nullptr;  // null: nothing to turn
    kit::UnitPlace place{};
    kit::Unit<T> unit;
    const auto fetch = [&] {
        slot = p.token_units.quotient(i);
        const unsigned rest = i - slot * p.token_units.divisor, head = p.head_units.quotient(rest);
        to = nullptr;
        if (i >= units || first_head + head >= p.heads) return;
        place = kit::unit_place(r, static_cast<int>(rest - head * p.head_units.divisor));
        const RopeToken token = rope_token(p, first + slot);
        to = static_cast<T*>(p.out) + token.to + (first_head + head) * p.out_strides.head;
        const T* from = static_cast<const T*>(p.x) + token.from + (first_head + head) * p.x_strides.head;
        kit::load_unit<kWhole>(from, place, unit);
    };
    // Every slot, so that the angles need no mask: those beyond the last token repeat it.
    const auto position = [&](unsigned at) -> std::int64_t {
        const RopeToken token = rope_token(p, first + (at < tokens ? at : tokens - 1));
        return r.positions != nullptr ? kit::position_at(r, token.position) : r.start + token.index;
    };

    kit::dependency_wait();
    kit::dependents_launch();
    fetch();
    kit::fill_turns(r, turns, static_cast<int>(p.block_tokens), position);
    __syncthreads();
    while (i < units) {
        if (to != nullptr) {
            const float *cos = turns.cos[slot], *sin = turns.sin[slot];
            if (p.eager) {
                kit::finish_unit<kWhole>(r, to, place, unit, cos, sin,
                                         kit::TurnInSteps<T>{.wide = p.wide_tables});
            } else {
                kit::finish_unit<kWhole>(r, to, place, unit, cos, sin);
            }
        }
        i += blockDim.x;
        fetch();
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
