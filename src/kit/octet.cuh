// Octets: eight neighbouring elements of a row, the unit of mixed row kernels (kit/mixed_row.cuh).
#pragma once

#include "kit/convert.cuh"
#include "kit/row_plan.h"

namespace weft::inline WEFT_TARGET::kit {

// Of a row, that a thread holds at a time.
inline constexpr int kOctets = weft::detail::kMixedVectors;

// use(slot, octet) for one after the other by one copy of its code, which finds each in the first one's registers.
template <int kCount, class F>
__device__ __forceinline__ void in_turn(float (&octets)[kCount][kOctet], F use) {
#pragma unroll 1
    for (int v = 0; v < kCount; ++v) {
        use(v, octets[0]);
#pragma unroll
        for (int i = 0; i < kOctet; ++i) {
            const float first = octets[0][i];
#pragma unroll
            for (int next = 1; next < kCount; ++next) octets[next - 1][i] = octets[next][i];
            octets[kCount - 1][i] = first;
        }
    }
}

// What a thread has of an operand: as it is stored, where two-byte elements take the first half of an octet; or in fp32.
struct Octets {
    float at[kOctets][kOctet];
};

// An octet of a row. `mask`: a bit for each element that is in it, of most all eight.
struct OctetPlace {
    int octet;
    unsigned mask;
    bool vector;  // is moved as one

    __device__ __forceinline__ static OctetPlace whole(int octet) { return {octet, 0xff, true}; }
    __device__ __forceinline__ bool has(int i) const { return (mask >> i & 1) != 0; }
};

// The same word, but the compiler cannot tell what it is made of, and does not keep the halves apart.
__device__ __forceinline__ float opaque(unsigned word) {
#if !defined(WEFT_EMULATOR) && defined(__CUDA_ARCH__)
    asm volatile("" : "+r"(word));
#endif
    return __uint_as_float(word);
}

// Elements of an octet one by one, as loads of the whole octet would leave them in `to`: two of two bytes share a word.
// An element that is not in it is 0.
__device__ __forceinline__ void fetch_singly(const std::uint16_t* from, const OctetPlace& place,
                                             float (&to)[kOctet]) {
#pragma unroll
    for (int i = 0; i < kOctet / 2; ++i) {
        unsigned word = place.has(2 * i) ? from[2 * i] : 0u;
        if (place.has(2 * i + 1)) word |= static_cast<unsigned>(from[2 * i + 1]) << 16;
        to[i] = opaque(word);
    }
}
__device__ __forceinline__ void fetch_singly(const float* from, const OctetPlace& place,
                                             float (&to)[kOctet]) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i) to[i] = place.has(i) ? from[i] : 0.0f;
}

// A whole octet as it is stored, fp32 (`kWide`) or 16 bits, which take the first half of `to`. `policy`: none or an
// L2Policy.
template <bool kWide, class... Policy>
__device__ __forceinline__ void fetch_whole(const char* octet, float (&to)[kOctet], Policy... policy) {
    const auto* words = reinterpret_cast<const float4*>(octet);
    const float4 first = kit::load(words, policy...);
    memcpy(to, &first, sizeof(first));
    if constexpr (kWide) {
        const float4 second = kit::load(words + 1, policy...);
        memcpy(to + 4, &second, sizeof(second));
    }
}

template <class T>
__device__ __forceinline__ void widen_octet(float (&octet)[kOctet]) {
    // From the last word on: none is overwritten before it was read. Words, for a compiler that sees all elements of
    // an array apart keeps them so.
#pragma unroll
    for (int i = kOctet / 2 - 1; i >= 0; --i) {
        const auto pair = detail::from_raw<Vec<T, 2>>(__float_as_uint(opaque(__float_as_uint(octet[i]))));
        float two[2];
        to_floats(pair, two);
        octet[2 * i] = two[0];
        octet[2 * i + 1] = two[1];
    }
}
// Octets as they were fetched become fp32, in place.
template <int kCount>
__device__ __forceinline__ void widen_octets(DType stored, float (&octets)[kCount][kOctet]) {
    with_wide_type(stored, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        if constexpr (sizeof(T) == 2) {
#pragma unroll
            for (auto& octet : octets) widen_octet<T>(octet);
        }
    });
}

__device__ __forceinline__ void fill_octet(float value, float (&octet)[kOctet]) {
#pragma unroll
    for (float& element : octet) element = value;
}

// An operand's row for the thread's row of x.
struct OctetRow {
    // Where its octets begin, perhaps before its first element; null: every element is `fill`.
    char* data = nullptr;
    DType dtype = DType::fp32;
    bool aligned = true;  // its octets are vectors
    float fill = 0.0f;
};

}  // namespace weft::inline WEFT_TARGET::kit
