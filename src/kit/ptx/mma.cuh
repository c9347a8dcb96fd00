// mma.sync: D = A B + C on the tensor cores, one warp, accumulators of fp32, or of whole numbers for those of 8 bits.
//
// Lane i, with g = i / 4 and t = i mod 4, holds of A (16 x K, row major) in a[0..3] rows g, g+8, g, g+8, of B
// (K x 8) in b[0..1] column g, and of C (16 x 8) in c[0..3] row g (twice), then g+8, columns 2t and 2t+1. A
// register holds W = 1 (tf32), 2 (16-bit) or 4 (8-bit) consecutive values of K, from W t, and in the second half of
// the registers from K/2 + W t.
//
// The host model adds in the order of K, in fp32: the sum of a GPU is as accurate, but not the same bits. Whole sums are exact, and
// wrap beyond 2^31.
#pragma once

#include "kit/target.h"

namespace weft::inline WEFT_TARGET::kit {

using bf16 = __nv_bfloat16;
using half = __half;
using e4m3 = __nv_fp8_e4m3;
using e5m2 = __nv_fp8_e5m2;
// fp32 without its last 13 bits, in the place of an fp32: the tensor cores do not look at these.
struct tf32 {
    uint32_t bits;
};

// What products of T are summed in.
template <typename T>
using Accumulator = std::conditional_t<std::is_same_v<T, std::int8_t>, std::int32_t, float>;

#if defined(WEFT_EMULATOR)
namespace detail {

inline float widen16(uint32_t bits, const bf16*) { return __uint_as_float(bits << 16); }

// fp16 to fp32 exactly: the exponent is moved by a multiplication, which also normalises subnormal values.
inline float widen16(uint32_t bits, const half*) {
    const float magnitude = __uint_as_float((bits & 0x7fff) << 13) * 0x1p112f;
    const uint32_t special = (bits & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u;
    return __uint_as_float(__float_as_uint(magnitude) | special | (bits & 0x8000) << 16);
}

// e5m2 is the upper half of an fp16; e4m3 is moved likewise, and its one NaN is all ones.
inline float widen8(uint32_t bits, const e5m2*) {
    return widen16(bits << 8, static_cast<const half*>(nullptr));
}
inline float widen8(uint32_t bits, const e4m3*) {
    if ((bits & 0x7f) == 0x7f) return __uint_as_float(0x7fc00000u);
    const float magnitude = __uint_as_float((bits & 0x7f) << 20) * 0x1p120f;
    return __uint_as_float(__float_as_uint(magnitude) | (bits & 0x80) << 24);
}
inline float widen8(uint32_t bits, const std::int8_t*) { return static_cast<std::int8_t>(bits); }

template <typename T>
float widen(uint32_t word, int index) {
    if constexpr (sizeof(T) == 4) {
        return __uint_as_float(word & 0xffffe000u);
    } else if constexpr (sizeof(T) == 2) {
        return widen16(word >> (16 * index) & 0xffff, static_cast<const T*>(nullptr));
    } else {
        return widen8(word >> (8 * index) & 0xff, static_cast<const T*>(nullptr));
    }
}

template <typename Sum>
struct MmaLane {
    Sum* c;
    const uint32_t *a, *b;
};

// c += a b, arrays of the caller: a sanitizer has nothing to see.
template <typename Sum, int M, int N, int K>
WEFT_UNINSTRUMENTED void add_product(Sum (&c)[M][N], const Sum (&a)[M][K], const Sum (&b)[K][N]) {
    for (int row = 0; row < M; ++row) {
        for (int k = 0; k < K; ++k) {
            for (int column = 0; column < N; ++column) c[row][column] += a[row][k] * b[k][column];
        }
    }
}

template <typename A, typename B, int K>
void complete_mma(void* const* lanes, uint32_t mask) {
    if (mask != 0xffffffffu)
        emulator::fault_in_lane(__builtin_ctz(mask), "mma: a lane of the warp has exited");
    using Sum = Accumulator<A>;
    constexpr int kWide = 4 / sizeof(A);
    Sum a[16][K], b[K][8];
    for (int lane = 0; lane < 32; ++lane) {
        const auto& own = *static_cast<const MmaLane<Sum>*>(lanes[lane]);
        const int g = lane / 4, k = lane % 4 * kWide;
        for (int i = 0; i < kWide; ++i) {
            for (int r = 0; r < 4; ++r)
                a[g + r % 2 * 8][r / 2 * (K / 2) + k + i] = static_cast<Sum>(widen<A>(own.a[r], i));
            for (int r = 0; r < 2; ++r) b[r * (K / 2) + k + i][g] = static_cast<Sum>(widen<B>(own.b[r], i));
        }
    }
    const auto owned = [lanes](int row, int column) -> Sum& {
        const auto& owner = *static_cast<const MmaLane<Sum>*>(lanes[row % 8 * 4 + column / 2]);
        return owner.c[row / 8 * 2 + column % 2];
    };
    Sum c[16][8];
    for (int row = 0; row < 16; ++row) {
        for (int column = 0; column < 8; ++column) c[row][column] = owned(row, column);
    }
    add_product(c, a, b);
    for (int row = 0; row < 16; ++row) {
        for (int column = 0; column < 8; ++column) owned(row, column) = c[row][column];
    }
}

template <typename A, typename B, int K>
void mma(const char* what, Accumulator<A>* c, const uint32_t* a, const uint32_t* b,
         const emulator::Where& where) {
    MmaLane<Accumulator<A>> lane{c, a, b};
    emulator::warp_collective(what, &lane, &complete_mma<A, B, K>, where);
}

}  // namespace detail
#else
// `sum`: in which registers the accumulators are, "+f" or "+r".
#define WEFT_MMA(shape, types, sum)                                                 \
    asm volatile("mma.sync.aligned." shape ".row.col." types                        \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : sum(c[0]), sum(c[1]), sum(c[2]), sum(c[3])                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#endif

// T is bf16 or half.
template <typename T>
__device__ __forceinline__ void mma_m16n8k16(float (&c)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2] WEFT_WHERE) {
    static_assert(std::is_same_v<T, bf16> || std::is_same_v<T, half>);
#if defined(WEFT_EMULATOR)
    detail::mma<T, T, 16>("mma_m16n8k16", c, a, b, where);
#else
    if constexpr (std::is_same_v<T, bf16>) {
        WEFT_MMA("m16n8k16", "f32.bf16.bf16.f32", "+f");
    } else {
        WEFT_MMA("m16n8k16", "f32.f16.f16.f32", "+f");
    }
#endif
}

// tf32: the registers hold fp32.
__device__ __forceinline__ void mma_m16n8k8_tf32(float (&c)[4], const uint32_t (&a)[4],
                                                 const uint32_t (&b)[2] WEFT_WHERE) {
#if defined(WEFT_EMULATOR)
    detail::mma<tf32, tf32, 8>("mma_m16n8k8_tf32", c, a, b, where);
#else
    WEFT_MMA("m16n8k8", "f32.tf32.tf32.f32", "+f");
#endif
}

// A and B are both int8; or e4m3 or e5m2, on SM 8.9 and newer, a trap before.
template <typename A, typename B>
__device__ __forceinline__ void mma_m16n8k32(Accumulator<A> (&c)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2] WEFT_WHERE) {
    constexpr bool kWhole = std::is_same_v<A, std::int8_t> && std::is_same_v<B, std::int8_t>;
    constexpr bool kA4 = std::is_same_v<A, e4m3>, kB4 = std::is_same_v<B, e4m3>;
    static_assert(kWhole || ((kA4 || std::is_same_v<A, e5m2>) && (kB4 || std::is_same_v<B, e5m2>)));
#if defined(WEFT_EMULATOR)
    detail::mma<A, B, 32>("mma_m16n8k32", c, a, b, where);
#else
    if constexpr (kWhole) {
        WEFT_MMA("m16n8k32", "s32.s8.s8.s32", "+r");
    } else {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
        if constexpr (kA4 && kB4) {
            WEFT_MMA("m16n8k32", "f32.e4m3.e4m3.f32", "+f");
        } else if constexpr (kA4) {
            WEFT_MMA("m16n8k32", "f32.e4m3.e5m2.f32", "+f");
        } else if constexpr (kB4) {
            WEFT_MMA("m16n8k32", "f32.e5m2.e4m3.f32", "+f");
        } else {
            WEFT_MMA("m16n8k32", "f32.e5m2.e5m2.f32", "+f");
        }
#else
        __trap();
#endif
    }
#endif
}

#undef WEFT_MMA

}  // namespace weft::inline WEFT_TARGET::kit
