// Codes of int4 as numbers: less the zero point of their group, times its scale.
#pragma once

#include "kit/narrow.cuh"
#include "kit/ptx/masked.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// Element `index` of an array of int4.
__device__ __forceinline__ float load_int4(const void* data, int64_t index) {
    const unsigned both = static_cast<const uint8_t*>(data)[index / 2];
    return static_cast<float>(static_cast<int>((both >> (index % 2 * 4) & 15u) ^ 8u) - 8);
}

// Stored scales as whole numbers of the bytes that their dtype has: use(where they are), so that one branch serves many loads.
template <class F>
__device__ __forceinline__ void with_scale_bits(const GroupScales& from, F use) {
    const int bytes = kit::stored_bytes(from.dtype);
    if (bytes == 1) return use(static_cast<const uint8_t*>(from.data));
    if (bytes == 2) return use(static_cast<const uint16_t*>(from.data));
    use(static_cast<const uint32_t*>(from.data));
}
// The scale of int4 that such bits are. fp16 meets scales of fp16 alone.
template <class T>
__device__ __forceinline__ T int4_scale(DType scales, uint32_t bits) {
    const auto lower = static_cast<uint16_t>(bits);
    kit::half of_half;
    memcpy(static_cast<void*>(&of_half), &lower, 2);
    if constexpr (std::is_same_v<T, kit::half>) {
        return of_half;
    } else {
        const float wide = __uint_as_float(scales == DType::bf16 ? bits << 16 : bits);
        return kit::from_float<T>(scales == DType::fp16 ? kit::to_float(of_half) : wide);
    }
}

template <class T>
__device__ __forceinline__ unsigned subtract_pair(unsigned pair, T number) {
    using Two = std::conditional_t<std::is_same_v<T, kit::bf16>, __nv_bfloat162, __half2>;
    Two two;
    memcpy(static_cast<void*>(&two), &pair, 4);
    two = __hsub2(two, Two(number, number));
    memcpy(&pair, static_cast<const void*>(&two), 4);
    return pair;
}

// Eight codes, the first in the lowest nibble, less a zero point, times a scale, as numbers of bf16 or fp16, which are rounded
// once. A code u - 8 whose u is shifted into the fraction of a power of two is that power + u: 64 of bf16, 512 of fp16, whose
// last place is a half. Less that power, 8 and the zero point, all of which T has in full, it is exact.
template <class T>
__device__ __forceinline__ uint4 scaled_int4(unsigned codes, float zero, T scale) {
    constexpr bool kBf16 = std::is_same_v<T, kit::bf16>;
    constexpr unsigned kPower = kBf16 ? 0x42804280u : 0x60006000u, kEight = 0x00100010u;
    const T lift = kit::from_float<T>((kBf16 ? 72.0f : 520.0f) + zero);
    unsigned pairs[4];  // codes i and i + 4
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const unsigned both = i == 0 ? codes << 1 : codes >> (4 * i - 1);
        const unsigned lifted = kit::masked_xor(both, 0x001e001eu, kPower | kEight);
        pairs[i] = kit::multiply_pair<T>(subtract_pair<T>(lifted, lift), scale);
    }
    return {__byte_perm(pairs[0], pairs[1], 0x5410), __byte_perm(pairs[2], pairs[3], 0x5410),
            __byte_perm(pairs[0], pairs[1], 0x7632), __byte_perm(pairs[2], pairs[3], 0x7632)};
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
