// Octets: eight neighbouring elements of a row, the unit of mixed row kernels (kit/mixed_row.cuh).
#pragma once

#include "kit/convert.cuh"
#include "kit/row_plan.h"

namespace weft::inline WEFT_TARGET::kit {

// Of a row, that a thread holds at a time.
inline constexpr int kOctets = weft::detail::kMixedVectors;

// use(octet) of the first; the next becomes the first then, and the first the last.
template <int kCount, class F>
__device__ __forceinline__ void turn(float (&octets)[kCount][kOctet], F use) {
    use(octets[0]);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
        const float first = octets[0][i];
#pragma unroll
        for (int next = 1; next < kCount; ++next) octets[next - 1][i] = octets[next][i];
        octets[kCount - 1][i] = first;
    }
}
// use(slot, octet) for one after the other by one copy of its code, which finds each in the first one's registers.
template <int kCount, class F>
__device__ __forceinline__ void in_turn(float (&octets)[kCount][kOctet], F use) {
#pragma unroll 1
    for (int v = 0; v < kCount; ++v) turn(octets, [&](float (&octet)[kOctet]) { use(v, octet); });
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

// An octet that begins `past` bytes behind an address of whole 16 bytes: by the vectors around it, all of which may be read.
// First their words, which of two-byte elements fill `to`:
template <bool kWide, class... Policy>
__device__ __forceinline__ void fetch_around(const char* octet, unsigned past,
                                             unsigned (&words)[kWide ? 12 : kOctet], Policy... policy) {
    const auto* vectors = reinterpret_cast<const uint4*>(octet - past);
#pragma unroll
    for (int i = 0; i < (kWide ? 3 : 2); ++i) {
        const uint4 vector = kit::load(vectors + i, policy...);
        words[4 * i] = vector.x, words[4 * i + 1] = vector.y;
        words[4 * i + 2] = vector.z, words[4 * i + 3] = vector.w;
    }
}
// Then the octet's own, which come to lie at the front.
template <int kWords>
__device__ __forceinline__ void move_to_front(unsigned (&words)[kWords], unsigned past) {
#pragma unroll
    for (int i = 0; i + 1 < kWords; ++i) words[i] = (past & 4) != 0 ? words[i + 1] : words[i];
#pragma unroll
    for (int i = 0; i + 2 < kWords; ++i) words[i] = (past & 8) != 0 ? words[i + 2] : words[i];
    if constexpr (kWords == kOctet) {  // of two-byte elements
#pragma unroll
        for (int i = 0; i < kOctet / 2; ++i)
            words[i] = static_cast<unsigned>((std::uint64_t{words[i + 1]} << 32 | words[i]) >> past % 4 * 8);
    }
}

template <int kWords>
__device__ __forceinline__ void as_octet(const unsigned (&words)[kWords], float (&to)[kOctet]) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i) to[i] = __uint_as_float(words[i]);
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
    char* data = nullptr;  // where its octets begin, perhaps before its first element
    DType dtype = DType::fp32;
    unsigned past = 0;  // bytes that its octets begin behind where a vector may; 0: they are vectors
};

}  // namespace weft::inline WEFT_TARGET::kit
