// Attention: keys, values and queries that are codes of fp8.
#pragma once

#include "kit/convert.cuh"
#include "kit/vector.cuh"
#include "ops/attention/params.cuh"
#include "ops/attention/warp_math.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// What a launch says of them, beside AttentionParams.
struct AttentionCodes {
    const float *q_scale, *k_scale, *v_scale;      // or null
    int q_scale_step, k_scale_step, v_scale_step;  // from a key head's to the next
    bool queries, e5m2;                            // whether queries are codes too; the format of all
    bool bf16;                                     // results, and queries that are no codes

    // The factor of a key head's scores, and of its values.
    __device__ float scores(int head) const {
        const float of_q = q_scale == nullptr ? 1.0f : q_scale[head * q_scale_step];
        return k_scale == nullptr ? of_q : of_q * k_scale[head * k_scale_step];
    }
    __device__ float values(int head) const {
        return v_scale == nullptr ? 1.0f : v_scale[head * v_scale_step];
    }
};

// Of all key heads by the threads of a block: of scores, then of values.
__device__ __forceinline__ void store_factors(const AttentionCodes& codes, float* factors, int heads) {
    for (int head = static_cast<int>(threadIdx.x); head < heads; head += static_cast<int>(blockDim.x)) {
        factors[head] = codes.scores(head);
        factors[heads + head] = codes.values(head);
    }
}

// What a tensor of codes is stored as, whatever their format.
using Code = std::uint8_t;
template <class Stored>
inline constexpr bool kCodes = std::is_same_v<Stored, Code>;

// Two codes, in the low 16 bits, as two numbers of T: exactly.
template <class T>
__device__ __forceinline__ uint32_t widen(uint32_t codes, bool e5m2) {
    const __half2 pair =
        __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(codes), e5m2 ? __NV_E5M2 : __NV_E4M3);
    if constexpr (std::is_same_v<T, kit::half>) {
        return *reinterpret_cast<const uint32_t*>(&pair);
    } else {
        const float2 both = __half22float2(pair);
        return pack_pair<T>(both.x, both.y);
    }
}

// Eight columns of a query from element `at` on, zeros behind the first `count`.
template <class T>
__device__ __forceinline__ uint4 load_query(const AttentionParams& p, const AttentionCodes& c,
                                            std::int64_t at, int count) {
    uint4 words = {};
    if (count <= 0) return words;
    if (c.queries) {
        const auto codes = kit::load_elements<8>(static_cast<const Code*>(p.q) + at, count, Code{0});
        uint32_t* word = &words.x;
#pragma unroll
        for (int i = 0; i < 4; ++i) word[i] = widen<T>(codes[2 * i] | codes[2 * i + 1] << 8, c.e5m2);
        return words;
    }
    const T* from = static_cast<const T*>(p.q) + at;
    if (p.vector_q) return kit::load(reinterpret_cast<const uint4*>(from));
    const auto some = kit::load_elements<8>(from, count, kit::from_float<T>(0.0f));
    memcpy(&words, static_cast<const void*>(&some), sizeof(words));
    return words;
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
