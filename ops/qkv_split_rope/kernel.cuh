// qkv_split_rope's kernel.
#pragma once

#include "kit/ptx/pdl.cuh"
#include "kit/rotary.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// Where heads of Q, K or V go.
struct HeadsOut {
    void* data;
    std::int64_t row_stride, head_stride;
};

struct SplitParams {
    const void* qkv;
    std::int64_t tokens, qkv_stride;
    HeadsOut q, k, v;
    std::int64_t cache_tokens, cache_offset;
    const void* cache_offset_add;  // null: 0
    bool wide_offset_add;
    std::int64_t position_stride;
    int q_heads, kv_heads;
    int block_tokens;  // a power of two
    bool aligned;
};

struct SplitShared {
    kit::Turns turns;
    std::int64_t position[kit::kTurnTokens];
};

__device__ __forceinline__ std::int64_t first_row(const SplitParams& p) {
    if (p.cache_offset_add == nullptr) return p.cache_offset;
    return p.cache_offset + (p.wide_offset_add ? *static_cast<const std::int64_t*>(p.cache_offset_add)
                                               : *static_cast<const std::int32_t*>(p.cache_offset_add));
}

// What     q[t] = turned Q; k_cache[first + t] = turned K; v_cache[first + t] = V
// Mapping  a block takes up to 4 tokens: their angles go to shared memory, one sincosf a pair and token, then
// a
//          thread turns 8 pairs, or copies 16 elements, of one head at a time (kit/rotary.cuh)
// Traffic  qkv once, and as much written: bound by memory
// Needs    nothing of the cache offset: rows outside the cache are left out. The outputs overlap nothing
template <class T>
__global__ void __launch_bounds__(256)
    qkv_split_rope(__grid_constant__ const kit::Rotation r, __grid_constant__ const SplitParams p) {
    SplitShared& shared = kit::block_shared<SplitShared>();
    kit::dependency_wait();
    kit::dependents_launch();
    const std::int64_t first_token = static_cast<std::int64_t>(blockIdx.x) * p.block_tokens,
                       cache_row = first_row(p);
    const auto tokens =
        static_cast<int>(p.tokens - first_token < p.block_tokens ? p.tokens - first_token : p.block_tokens);
    // Every slot, so that the angles need no mask: those beyond the last token repeat it.
    if (static_cast<int>(threadIdx.x) < p.block_tokens) {
        const int slot = static_cast<int>(threadIdx.x);
        const std::int64_t token = first_token + (slot < tokens ? slot : tokens - 1);
        shared.position[slot] =
            r.positions != nullptr ? kit::position_at(r, token * p.position_stride) : cache_row + token;
    }
    __syncthreads();
    kit::fill_turns(r, shared.turns, shared.position, p.block_tokens);
    __syncthreads();

    const int head_units = kit::head_units(r), value_units = r.is_first() ? kit::copy_units(r.head_dim) : 0;
    const int turned = (p.q_heads + p.kv_heads) * head_units, units = turned + p.kv_heads * value_units;
    for (int i = static_cast<int>(threadIdx.x); i < tokens * units; i += static_cast<int>(blockDim.x)) {
        const int slot = i / units, place = i - slot * units;
        const std::int64_t token = first_token + slot, row = cache_row + token;
        const T* from = static_cast<const T*>(p.qkv) + token * p.qkv_stride;
        const bool cached = row >= 0 && row < p.cache_tokens;
        if (place < turned) {
            const int head = place / head_units, unit = place - head * head_units;
            const bool is_key = head >= p.q_heads;
            if (is_key && !cached) continue;
            const HeadsOut& out = is_key ? p.k : p.q;
            T* to = static_cast<T*>(out.data) + (is_key ? row : token) * out.row_stride +
                    (is_key ? head - p.q_heads : head) * out.head_stride;
            kit::turn_unit(r, from + static_cast<std::int64_t>(head) * r.head_dim, to, unit,
                           shared.turns.cos[slot], shared.turns.sin[slot], p.aligned);
        } else if (cached) {
            const int head = (place - turned) / value_units, unit = place - turned - head * value_units;
            from += static_cast<std::int64_t>(p.q_heads + p.kv_heads + head) * r.head_dim;
            T* to = static_cast<T*>(p.v.data) + row * p.v.row_stride + head * p.v.head_stride;
            kit::copy_unit(from, to, r.head_dim, unit, p.aligned);
        }
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
