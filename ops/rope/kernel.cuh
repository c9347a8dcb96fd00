// rope's kernel.
#pragma once

#include "kit/ptx/pdl.cuh"
#include "kit/rotary.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kLeading = 4;  // axes before the heads: up to three of a batch, and the tokens

// Strides of the axes before the heads, and of the heads.
struct HeadStrides {
    std::int64_t axis[kLeading], head;
};

struct RopeParams {
    std::int64_t tokens;          // of the whole batch
    std::int64_t size[kLeading];  // the last is the tokens of one sequence
    HeadStrides x_strides, out_strides;
    std::int64_t position_stride[kLeading];
    const void* x;
    void* out;
    std::int64_t heads;
    int block_tokens;  // a power of two
    bool in_place, aligned;
};

struct RopeShared {
    kit::Turns turns;
    std::int64_t position[kit::kTurnTokens], from[kit::kTurnTokens], to[kit::kTurnTokens];
};

// Token `token`'s position, and where its heads lie.
__device__ __forceinline__ void locate(const kit::Rotation& r, const RopeParams& p, std::int64_t token,
                                       RopeShared& shared, int slot) {
    std::int64_t rest = token, from = 0, to = 0, offset = 0, position = r.start;
#pragma unroll
    for (int axis = kLeading - 1; axis >= 0; --axis) {
        const std::int64_t next = p.size[axis] == 1 ? rest : rest / p.size[axis];
        const std::int64_t index = rest - next * p.size[axis];
        from += index * p.x_strides.axis[axis];
        to += index * p.out_strides.axis[axis];
        offset += index * p.position_stride[axis];
        if (axis == kLeading - 1) position += index;
        rest = next;
    }
    shared.from[slot] = from;
    shared.to[slot] = to;
    shared.position[slot] = r.positions != nullptr ? kit::position_at(r, offset) : position;
}

// What     each pair (a, b) of x's heads → (a·cos − b·sin, b·cos + a·sin) in out; other elements copied
// Mapping  a block takes up to 4 tokens: their angles go to shared memory, one sincosf a pair and token, then
// a
//          thread turns 8 pairs of one head at a time, two vectors of 8 elements (kit/rotary.cuh)
// Traffic  x and out once: bound by memory; the angles cost 1/heads of what each head's own would
// Needs    x and out the very same view, or apart
template <class T>
__global__ void __launch_bounds__(256)
    rope(__grid_constant__ const kit::Rotation r, __grid_constant__ const RopeParams p) {
    RopeShared& shared = kit::block_shared<RopeShared>();
    kit::dependency_wait();
    kit::dependents_launch();
    const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * p.block_tokens;
    const auto tokens =
        static_cast<int>(p.tokens - first < p.block_tokens ? p.tokens - first : p.block_tokens);
    // Every slot, so that the angles need no mask: those beyond the last token repeat it.
    if (static_cast<int>(threadIdx.x) < p.block_tokens) {
        const int slot = static_cast<int>(threadIdx.x);
        locate(r, p, first + (slot < tokens ? slot : tokens - 1), shared, slot);
    }
    __syncthreads();
    kit::fill_turns(r, shared.turns, shared.position, p.block_tokens);
    __syncthreads();

    // In place, the elements that do not turn are where they belong.
    const unsigned units = p.in_place ? kit::turn_units(r) : kit::head_units(r);
    for (std::int64_t head0 = blockIdx.y * 256ll; head0 < p.heads; head0 += gridDim.y * 256ll) {
        const auto heads = static_cast<unsigned>(p.heads - head0 < 256 ? p.heads - head0 : 256);
        for (unsigned i = threadIdx.x; i < tokens * heads * units; i += blockDim.x) {
            const unsigned row = i / units, unit = i - row * units, token = row / heads,
                           head = row - token * heads;
            const T* from =
                static_cast<const T*>(p.x) + shared.from[token] + (head0 + head) * p.x_strides.head;
            T* to = static_cast<T*>(p.out) + shared.to[token] + (head0 + head) * p.out_strides.head;
            kit::turn_unit(r, from, to, static_cast<int>(unit), shared.turns.cos[token],
                           shared.turns.sin[token], p.aligned);
        }
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
