// wgmma's instructions: one form for each shape, type and place of A, because the registers of the
// accumulators have to be listed. WEFT_WGMMA_SHAPE at the end makes a shape.
#pragma once

#include "kit/target.h"

// Eight accumulators from d[i] on, and their names: the operands are numbered from %0. WEFT_SUM is the kind of their
// registers, "+f" or "+r".
#define WEFT_D8(i)                                                                                          \
    WEFT_SUM(d[i]), WEFT_SUM(d[(i) + 1]), WEFT_SUM(d[(i) + 2]), WEFT_SUM(d[(i) + 3]), WEFT_SUM(d[(i) + 4]), \
        WEFT_SUM(d[(i) + 5]), WEFT_SUM(d[(i) + 6]), WEFT_SUM(d[(i) + 7])
#define WEFT_D16(i) WEFT_D8(i), WEFT_D8((i) + 8)
#define WEFT_D32(i) WEFT_D16(i), WEFT_D16((i) + 16)
#define WEFT_D40(i) WEFT_D32(i), WEFT_D8((i) + 32)
#define WEFT_D48(i) WEFT_D40(i), WEFT_D8((i) + 40)
#define WEFT_D60(i)                                                                                       \
    WEFT_D40(i), WEFT_D16((i) + 40), WEFT_SUM(d[(i) + 56]), WEFT_SUM(d[(i) + 57]), WEFT_SUM(d[(i) + 58]), \
        WEFT_SUM(d[(i) + 59])
#define WEFT_D64(i) WEFT_D32(i), WEFT_D32((i) + 32)
#define WEFT_D96(i) WEFT_D64(i), WEFT_D32((i) + 64)
#define WEFT_D88(i) WEFT_D64(i), WEFT_D16((i) + 64), WEFT_D8((i) + 80)
#define WEFT_D124(i)                                                                                     \
    WEFT_D96(i), WEFT_D16((i) + 96), WEFT_D8((i) + 112), WEFT_SUM(d[(i) + 120]), WEFT_SUM(d[(i) + 121]), \
        WEFT_SUM(d[(i) + 122]), WEFT_SUM(d[(i) + 123])
#define WEFT_D128(i) WEFT_D64(i), WEFT_D64((i) + 64)
#define WEFT_N0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WEFT_N8 "%8, %9, %10, %11, %12, %13, %14, %15"
#define WEFT_N16 "%16, %17, %18, %19, %20, %21, %22, %23"
#define WEFT_N24 "%24, %25, %26, %27, %28, %29, %30, %31"
#define WEFT_N32 "%32, %33, %34, %35, %36, %37, %38, %39"
#define WEFT_N40 "%40, %41, %42, %43, %44, %45, %46, %47"
#define WEFT_N48 "%48, %49, %50, %51, %52, %53, %54, %55"
#define WEFT_N56 "%56, %57, %58, %59, %60, %61, %62, %63"
#define WEFT_N64 "%64, %65, %66, %67, %68, %69, %70, %71"
#define WEFT_N72 "%72, %73, %74, %75, %76, %77, %78, %79"
#define WEFT_N80 "%80, %81, %82, %83, %84, %85, %86, %87"
#define WEFT_N88 "%88, %89, %90, %91, %92, %93, %94, %95"
#define WEFT_N96 "%96, %97, %98, %99, %100, %101, %102, %103"
#define WEFT_N104 "%104, %105, %106, %107, %108, %109, %110, %111"
#define WEFT_N112 "%112, %113, %114, %115, %116, %117, %118, %119"
#define WEFT_N120 "%120, %121, %122, %123, %124, %125, %126, %127"
#define WEFT_NAMES_8 WEFT_N0
#define WEFT_NAMES_16 WEFT_NAMES_8 ", " WEFT_N8
#define WEFT_NAMES_32 WEFT_NAMES_16 ", " WEFT_N16 ", " WEFT_N24
#define WEFT_NAMES_40 WEFT_NAMES_32 ", " WEFT_N32
#define WEFT_NAMES_48 WEFT_NAMES_40 ", " WEFT_N40
#define WEFT_NAMES_60 WEFT_NAMES_48 ", " WEFT_N48 ", %56, %57, %58, %59"
#define WEFT_NAMES_64 WEFT_NAMES_48 ", " WEFT_N48 ", " WEFT_N56
#define WEFT_NAMES_88 WEFT_NAMES_64 ", " WEFT_N64 ", " WEFT_N72 ", " WEFT_N80
#define WEFT_NAMES_96 WEFT_NAMES_88 ", " WEFT_N88
#define WEFT_NAMES_124 WEFT_NAMES_96 ", " WEFT_N96 ", " WEFT_N104 ", " WEFT_N112 ", %120, %121, %122, %123"
#define WEFT_NAMES_128 WEFT_NAMES_96 ", " WEFT_N96 ", " WEFT_N104 ", " WEFT_N112 ", " WEFT_N120

// A: descriptor %a, B: descriptor %b, %p: whether to accumulate; then what the type takes beside.
#define WEFT_WGMMA_SHARED(n, k, types, count, a, b, p, rest, ...)                                \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p                                         \
                 ", 0;\n"                                                                        \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k" #k "." types " {" WEFT_NAMES_##count \
                 "}, %" #a ", %" #b ", p" rest ";\n}"                                            \
                 : WEFT_D##count(0)                                                              \
                 : "l"(a_bits), "l"(b_bits), "r"(static_cast<int>(accumulate))__VA_OPT__(, ) __VA_ARGS__)
#define WEFT_WGMMA_REGISTERS(n, k, types, count, a0, a1, a2, a3, b, p, rest, ...)                \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p                                         \
                 ", 0;\n"                                                                        \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k" #k "." types " {" WEFT_NAMES_##count \
                 "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b ", p" rest ";\n}"           \
                 : WEFT_D##count(0)                                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_bits),                      \
                   "r"(static_cast<int>(accumulate))__VA_OPT__(, ) __VA_ARGS__)

// Sixteen-bit elements: the majors are immediates. The numbers are those of the operands after `count`
// accumulators.
#define WEFT_WGMMA_16(n, type, name, count, i0, i1, i2, i3, i4, i5, i6)                                  \
    template <>                                                                                          \
    struct Wgmma<type, type, n> {                                                                        \
        template <Major kA, Major kB>                                                                    \
        __device__ __forceinline__ static void run(float (&d)[n / 2], uint64_t a_bits, uint64_t b_bits,  \
                                                   bool accumulate) {                                    \
            WEFT_WGMMA_SHARED(n, 16, "f32." name "." name, count, i0, i1, i2, ", 1, 1, %" #i3 ", %" #i4, \
                              "n"(static_cast<int>(kA)), "n"(static_cast<int>(kB)));                     \
        }                                                                                                \
        template <Major kB>                                                                              \
        __device__ __forceinline__ static void run(float (&d)[n / 2], const uint32_t (&a)[4],            \
                                                   uint64_t b_bits, bool accumulate) {                   \
            WEFT_WGMMA_REGISTERS(n, 16, "f32." name "." name, count, i0, i1, i2, i3, i4, i5,             \
                                 ", 1, 1, %" #i6, "n"(static_cast<int>(kB)));                            \
        }                                                                                                \
    };
// `types` with the accumulators', `rest` what an instruction of them takes behind.
#define WEFT_WGMMA_8(n, first, second, types, rest, count, i0, i1, i2, i3, i4, i5, i6)                     \
    template <>                                                                                            \
    struct Wgmma<first, second, n> {                                                                       \
        template <Major, Major>                                                                            \
        __device__ __forceinline__ static void run(Accumulator<first> (&d)[n / 2], uint64_t a_bits,        \
                                                   uint64_t b_bits, bool accumulate) {                     \
            WEFT_WGMMA_SHARED(n, 32, types, count, i0, i1, i2, rest);                                      \
        }                                                                                                  \
        template <Major>                                                                                   \
        __device__ __forceinline__ static void run(Accumulator<first> (&d)[n / 2], const uint32_t (&a)[4], \
                                                   uint64_t b_bits, bool accumulate) {                     \
            WEFT_WGMMA_REGISTERS(n, 32, types, count, i0, i1, i2, i3, i4, i5, rest);                       \
        }                                                                                                  \
    };
#define WEFT_WGMMA_FLOAT(n, first, second, names, ...) \
    WEFT_WGMMA_8(n, first, second, "f32." names, ", 1, 1", __VA_ARGS__)
#define WEFT_WGMMA_WHOLE(n, ...) WEFT_WGMMA_8(n, std::int8_t, std::int8_t, "s32.s8.s8", "", __VA_ARGS__)
#define WEFT_WGMMA_SHAPE(n, ...)                              \
    WEFT_WGMMA_16(n, bf16, "bf16", __VA_ARGS__)               \
    WEFT_WGMMA_16(n, half, "f16", __VA_ARGS__)                \
    WEFT_WGMMA_FLOAT(n, e4m3, e4m3, "e4m3.e4m3", __VA_ARGS__) \
    WEFT_WGMMA_FLOAT(n, e4m3, e5m2, "e4m3.e5m2", __VA_ARGS__) \
    WEFT_WGMMA_FLOAT(n, e5m2, e4m3, "e5m2.e4m3", __VA_ARGS__) \
    WEFT_WGMMA_FLOAT(n, e5m2, e5m2, "e5m2.e5m2", __VA_ARGS__)

namespace weft::inline WEFT_TARGET::kit::detail {

template <class A, class B, int N>
struct Wgmma;

// Other architectures compile the same kernels, and never run them.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDA_ARCH__)
// clang-format off
#define WEFT_SUM "+f"
WEFT_WGMMA_SHAPE(16, 8, 8, 9, 10, 11, 12, 13, 14)
WEFT_WGMMA_SHAPE(32, 16, 16, 17, 18, 19, 20, 21, 22)
WEFT_WGMMA_SHAPE(64, 32, 32, 33, 34, 35, 36, 37, 38)
WEFT_WGMMA_SHAPE(80, 40, 40, 41, 42, 43, 44, 45, 46)
WEFT_WGMMA_SHAPE(96, 48, 48, 49, 50, 51, 52, 53, 54)
WEFT_WGMMA_SHAPE(120, 60, 60, 61, 62, 63, 64, 65, 66)
WEFT_WGMMA_SHAPE(128, 64, 64, 65, 66, 67, 68, 69, 70)
WEFT_WGMMA_SHAPE(176, 88, 88, 89, 90, 91, 92, 93, 94)
WEFT_WGMMA_SHAPE(192, 96, 96, 97, 98, 99, 100, 101, 102)
WEFT_WGMMA_SHAPE(248, 124, 124, 125, 126, 127, 128, 129, 130)
WEFT_WGMMA_SHAPE(256, 128, 128, 129, 130, 131, 132, 133, 134)
#undef WEFT_SUM
#define WEFT_SUM "+r"
WEFT_WGMMA_WHOLE(16, 8, 8, 9, 10, 11, 12, 13, 14)
WEFT_WGMMA_WHOLE(64, 32, 32, 33, 34, 35, 36, 37, 38)
WEFT_WGMMA_WHOLE(128, 64, 64, 65, 66, 67, 68, 69, 70)
WEFT_WGMMA_WHOLE(176, 88, 88, 89, 90, 91, 92, 93, 94)
WEFT_WGMMA_WHOLE(256, 128, 128, 129, 130, 131, 132, 133, 134)
#undef WEFT_SUM
// clang-format on
#else
template <class A, class B, int N>
struct Wgmma {
    template <Major, Major>
    __device__ static void run(Accumulator<A> (&)[N / 2], uint64_t, uint64_t, bool) {
        __trap();
    }
    template <Major>
    __device__ static void run(Accumulator<A> (&)[N / 2], const uint32_t (&)[4], uint64_t, bool) {
        __trap();
    }
};
#endif

}  // namespace weft::inline WEFT_TARGET::kit::detail

#undef WEFT_WGMMA_SHARED
#undef WEFT_WGMMA_REGISTERS
#undef WEFT_WGMMA_16
#undef WEFT_WGMMA_8
#undef WEFT_WGMMA_FLOAT
#undef WEFT_WGMMA_WHOLE
#undef WEFT_WGMMA_SHAPE
