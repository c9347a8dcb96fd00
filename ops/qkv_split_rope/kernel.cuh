// qkv_split_rope's kernel.
#pragma once

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
    unsigned tokens;
    std::int64_t qkv_stride;
    HeadsOut q, k, v;
    std::int64_t cache_tokens, cache_offset;
    const void* cache_offset_add;  // null: 0
    bool wide_offset_add;
    std::int64_t position_stride;
    unsigned q_heads, turned_heads;
    kit::Divisor head_units, value_units, token_units;  // of a head that turns, of one that does not, of all
    unsigned block_tokens;                              // a power of two
};

__device__ __forceinline__ std::int64_t first_row(const SplitParams& p) {
    if (p.cache_offset_add == nullptr) return p.cache_offset;
    return p.cache_offset + (p.wide_offset_add ? *static_cast<const std::int64_t*>(p.cache_offset_add)
                                               : *static_cast<const std::int32_t*>(p.cache_offset_add));
}

// What     q[t] = turned Q; k_cache[first + t] = turned K; v_cache[first + t] = V
// Mapping  a block takes up to 4 tokens: a thread asks for its unit, 8 pairs or 16 elements of one head, then
//          takes part in the angles, which go to shared memory, one sincosf a pair and token, and turns its
//          unit when they are there (kit/rotary.cuh)
// Traffic  qkv once, and as much written: bound by memory
// Needs    nothing of the cache offset: rows outside the cache are left out. The outputs overlap nothing.
//          kWhole: units of whole, aligned vectors
template <class T, bool kWhole>
__global__ void __launch_bounds__(512)
    qkv_split_rope(__grid_constant__ const kit::Rotation r, __grid_constant__ const SplitParams p) {
    kit::Turns& turns = kit::block_shared<kit::Turns>();
    const unsigned first = blockIdx.x * p.block_tokens;
    const unsigned tokens = p.tokens - first < p.block_tokens ? p.tokens - first : p.block_tokens;
    const unsigned units = tokens * p.token_units.divisor, turned = p.turned_heads * p.head_units.divisor;

    unsigned i = threadIdx.x, slot = 0;
    T* to = nullptr;  // null: outside the cache
    kit::UnitPlace place{};
    kit::Unit<T> unit;
    const auto fetch = [&](std::int64_t cache_row) {
        slot = p.token_units.quotient(i);
        unsigned rest = i - slot * p.token_units.divisor, head = p.head_units.quotient(rest);
        if (rest < turned) {
            place = kit::unit_place(r, static_cast<int>(rest - head * p.head_units.divisor));
        } else {
            rest -= turned;
            const unsigned value = p.value_units.quotient(rest);
            head = p.turned_heads + value;
            place = kit::copy_place(0, r.head_dim, static_cast<int>(rest - value * p.value_units.divisor));
        }
        if (i >= units) return;
        const unsigned token = first + slot;
        const T* from = static_cast<const T*>(p.qkv) + token * p.qkv_stride + std::int64_t{head} * r.head_dim;
        kit::load_unit<kWhole>(from, place, unit);
        const bool is_query = head < p.q_heads, is_key = head < p.turned_heads;
        const HeadsOut& out = is_query ? p.q : is_key ? p.k : p.v;
        const std::int64_t row = is_query ? token : cache_row + token;
        head -= is_query ? 0 : is_key ? p.q_heads : p.turned_heads;
        to = static_cast<T*>(out.data) + row * out.row_stride + head * out.head_stride;
        if (!is_query && (row < 0 || row >= p.cache_tokens)) to = nullptr;
    };

    kit::dependency_wait();
    kit::dependents_launch();
    const std::int64_t cache_row = first_row(p);
    fetch(cache_row);
    // Every slot, so that the angles need no mask: those beyond the last token repeat it.
    const auto position = [&](unsigned at) -> std::int64_t {
        const unsigned token = first + (at < tokens ? at : tokens - 1);
        return r.positions != nullptr ? kit::position_at(r, token * p.position_stride) : cache_row + token;
    };
    kit::fill_turns(r, turns, static_cast<int>(p.block_tokens), position);
    __syncthreads();
    while (i < units) {
        if (to != nullptr) kit::finish_unit<kWhole>(r, to, place, unit, turns.cos[slot], turns.sin[slot]);
        i += blockDim.x;
        fetch(cache_row);
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
