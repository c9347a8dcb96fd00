// wgmma (SM 9.0a): D += A B on the tensor cores, issued by the four warps of a warpgroup, accumulators of fp32, or of
// whole numbers for int8.
//
// D is 64 x N. Thread i of the warpgroup, with w = i / 32, g = i mod 32 / 4 and t = i mod 4, holds in d[4 j +
// e] row 16 w + g + 8 (e / 2), column 8 j + 2 t + e mod 2. A is 64 x K (K = 16 of 16-bit, 32 of 8-bit
// elements), in shared memory or in four registers a thread, laid out for each warp as mma.sync's; B is K x N
// in shared memory.
//
// A matrix in shared memory is made of 16-byte chunks. K-major: a chunk runs along K; rows are as wide as the
// swizzle, eight of them a group, groups `stride` apart (without a swizzle: a group is 128 bytes, and the
// next chunk along K is `leading` apart). MN-major (16-bit only): a chunk runs along M or N; a row of one k
// is as wide as the swizzle, the next eight k are `stride` apart and the next piece along M or N `leading`.
//
// The products go on beside the warps. From the issue to wgmma_wait the accumulators belong to the tensor
// cores. The host model poisons them meanwhile, reads shared memory as late or as early as can be, takes A's
// registers at the issue, and adds in the order of K, in fp32 or as emulator::set_short_fp8_sums says; whole sums are exact.
#pragma once

#if defined(WEFT_EMULATOR)
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "emulator/async_proxy.h"
#endif

#include "kit/ptx/memory.cuh"
#include "kit/ptx/mma.cuh"
#include "kit/tensor_map.h"

namespace weft::inline WEFT_TARGET::kit {

// What wgmma is told of a matrix in shared memory; offsets in bytes. The lower half holds its address in units of 16 bytes,
// which moves along K inside of a swizzled row, or by whole multiples of 8 rows; halves, so that moving takes one
// instruction of 32 bits.
struct MatrixDescriptor {
    uint32_t low, high;
    __device__ __forceinline__ uint64_t bits() const { return static_cast<uint64_t>(high) << 32 | low; }
    __device__ __forceinline__ MatrixDescriptor moved(unsigned bytes) const {
        return {low + (bytes >> 4), high};
    }
};

__device__ __forceinline__ MatrixDescriptor matrix_descriptor(const void* shared, Swizzle swizzle,
                                                              unsigned stride, unsigned leading = 16) {
#if defined(WEFT_EMULATOR)
    const uint32_t address = emulator::shared_window(shared);
#else
    const uint32_t address = shared_address(shared);
#endif
    const uint32_t mode = swizzle == Swizzle::none       ? 0
                          : swizzle == Swizzle::bytes128 ? 1
                          : swizzle == Swizzle::bytes64  ? 2
                                                         : 3;
    return {(address & 0x3ffff) >> 4 | (leading >> 4 & 0x3fff) << 16, (stride >> 4 & 0x3fff) | mode << 30};
}

enum class Major { k, mn };

// Elements along K of one instruction.
template <class T>
inline constexpr int kWgmmaDepth = 32 / static_cast<int>(sizeof(T));

#if defined(WEFT_EMULATOR)
namespace detail {

// The chunks of `extent` rows (M or N) by K: row by row (K-major), or k by k (MN-major).
template <class T, int kExtent, Major kMajor>
emulator::WgmmaChunks chunks_of(uint64_t bits) {
    constexpr int kOfChunk = 16 / static_cast<int>(sizeof(T)), kDepth = kWgmmaDepth<T>;
    constexpr Swizzle kModes[] = {Swizzle::none, Swizzle::bytes128, Swizzle::bytes64, Swizzle::bytes32};
    const auto start = static_cast<uint32_t>(bits & 0x3fff) << 4;
    const auto leading = static_cast<uint32_t>(bits >> 16 & 0x3fff) << 4;
    const auto stride = static_cast<uint32_t>(bits >> 32 & 0x3fff) << 4;
    const Swizzle swizzle = kModes[bits >> 62];
    const auto width = static_cast<uint32_t>(swizzle);
    if (swizzle != Swizzle::none && start % (8 * width) >= width)
        emulator::fault("wgmma: the matrix does not begin in the first row of its swizzle's pattern");
    emulator::WgmmaChunks chunks;
    const auto add = [&](uint32_t offset) { chunks.push_back(swizzled(swizzle, start + offset)); };
    if constexpr (kMajor == Major::k) {
        for (int row = 0; row < kExtent; ++row) {
            const auto r = static_cast<uint32_t>(row);
            for (uint32_t c = 0; c < kDepth / kOfChunk; ++c) {
                add(r / 8 * stride + r % 8 * width + c * (swizzle == Swizzle::none ? leading : 16));
            }
        }
        return chunks;
    }
    const uint32_t pieces = width / 16;  // chunks of a row
    for (uint32_t k = 0; k < kDepth; ++k) {
        for (uint32_t c = 0; c < static_cast<uint32_t>(kExtent / kOfChunk); ++c) {
            // Without a swizzle the two offsets change places.
            const uint32_t along = swizzle == Swizzle::none ? stride : leading,
                           down = swizzle == Swizzle::none ? leading : stride;
            add(c / pieces * along + c % pieces * 16 + k / 8 * down + k % 8 * width);
        }
    }
    return chunks;
}

// Element (row, k) of a matrix whose chunks were fetched in that order.
template <class T>
WEFT_UNINSTRUMENTED inline float element_of(const unsigned char* chunks, int extent, int row, int k,
                                            Major major) {
    const int index = major == Major::k ? row * kWgmmaDepth<T> + k : k * extent + row;
    uint32_t word = 0;
    __builtin_memcpy(&word, chunks + static_cast<size_t>(index) * sizeof(T), sizeof(T));
    return widen<T>(word, 0);
}

// From the registers of 128 threads, four words each.
template <class T>
WEFT_UNINSTRUMENTED inline float register_of(const unsigned char* registers, int row, int k) {
    constexpr int kWide = 4 / static_cast<int>(sizeof(T)), kHalf = kWgmmaDepth<T> / 2;
    const int thread = row / 16 * 32 + row % 8 * 4 + k % kHalf / kWide, index = k / kHalf * 2 + row % 16 / 8;
    uint32_t word = 0;
    __builtin_memcpy(&word, registers + thread * 16 + index * 4, 4);
    return widen<T>(word, k % kWide);
}

// Accumulator (row, n) among those of all 128 threads.
WEFT_UNINSTRUMENTED inline float* accumulator_of(float* const* d, int row, int n) {
    return d[row / 16 * 32 + row % 8 * 4 + n % 8 / 2] + (n / 8 * 4 + row % 16 / 8 * 2 + n % 2);
}

template <class Sum>
WEFT_UNINSTRUMENTED void add_scaled(Sum* sums, Sum factor, const Sum* column, int count) {
    for (int n = 0; n < count; ++n) sums[n] += factor * column[n];
}

// With 13 fraction bits, truncated.
WEFT_UNINSTRUMENTED inline float short_sum(float sum) {
    if (!(sum - sum == 0)) return sum;  // infinite or NaN
    uint32_t bits;
    __builtin_memcpy(&bits, &sum, 4);
    bits &= ~uint32_t{0x3ff};
    __builtin_memcpy(&sum, &bits, 4);
    return sum;
}

template <class A, class B, int N, Major kA, Major kB, bool kRegisters>
WEFT_UNINSTRUMENTED void multiply_wgmma(const unsigned char* a, const unsigned char* b, float* const* d) {
    constexpr int kDepth = kWgmmaDepth<A>;
    using Sum = Accumulator<A>;
    const std::unique_ptr<Sum[]> memory(new Sum[(kDepth + 1) * N]);  // a fiber's stack is small
    Sum *columns = memory.get(), *sums = columns + kDepth * N;
    for (int k = 0; k < kDepth; ++k) {
        for (int n = 0; n < N; ++n) columns[k * N + n] = static_cast<Sum>(element_of<B>(b, N, n, k, kB));
    }
    for (int row = 0; row < 64; ++row) {
        for (int n = 0; n < N; ++n) std::memcpy(&sums[n], accumulator_of(d, row, n), 4);
        for (int k = 0; k < kDepth; ++k) {
            const float factor = kRegisters ? register_of<A>(a, row, k) : element_of<A>(a, 64, row, k, kA);
            add_scaled(sums, static_cast<Sum>(factor), columns + k * N, N);
        }
        if constexpr (std::is_same_v<Sum, float> && sizeof(A) == 1) {
            if (emulator::short_fp8_sums())
                for (int n = 0; n < N; ++n) sums[n] = short_sum(sums[n]);
        }
        for (int n = 0; n < N; ++n) std::memcpy(accumulator_of(d, row, n), &sums[n], 4);
    }
}

template <class A, class B, int N, Major kA, Major kB>
void issue_wgmma(const char* what, Accumulator<A>* d, const uint32_t* registers, uint64_t a, uint64_t b,
                 bool accumulate, const emulator::Where& where) {
    const emulator::Wgmma call{.d = reinterpret_cast<float*>(d),
                               .a = registers,
                               .accumulators = N / 2,
                               .a_descriptor = a,
                               .b_descriptor = b,
                               .accumulate = accumulate,
                               .a_by_rows = kA == Major::k,
                               .locate_a = &chunks_of<A, 64, kA>,
                               .locate_b = &chunks_of<B, N, kB>,
                               .multiply = registers ? &multiply_wgmma<A, B, N, kA, kB, true>
                                                     : &multiply_wgmma<A, B, N, kA, kB, false>};
    emulator::wgmma(what, call, where);
}

}  // namespace detail
#endif

// Before the first wgmma, and between any access to its registers and the next wgmma that uses them.
__device__ __forceinline__ void wgmma_fence() {
#if defined(WEFT_EMULATOR)
    emulator::wgmma_fence();
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

// Makes a group of the products since the last commit.
__device__ __forceinline__ void wgmma_commit() {
#if defined(WEFT_EMULATOR)
    emulator::wgmma_commit();
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

// Waits until at most the Newest last groups are in flight.
template <int Newest>
__device__ __forceinline__ void wgmma_wait(WEFT_WHERE_ONLY) {
#if defined(WEFT_EMULATOR)
    emulator::wgmma_wait(Newest, where);
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Newest) : "memory");
#endif
}

// Keeps the compiler from moving accesses to accumulators across the asynchronous part.
template <class Sum, int Count>
__device__ __forceinline__ void wgmma_hold([[maybe_unused]] Sum (&d)[Count]) {
#if !defined(WEFT_EMULATOR)
#pragma unroll
    for (int i = 0; i < Count; ++i) {
        if constexpr (std::is_same_v<Sum, float>) {
            asm volatile("" : "+f"(d[i])::"memory");
        } else {
            asm volatile("" : "+r"(d[i])::"memory");
        }
    }
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit

#if !defined(WEFT_EMULATOR)
#include "kit/ptx/wgmma_instructions.cuh"
#endif

namespace weft::inline WEFT_TARGET::kit {

// D = A B, plus D where `accumulate`. T: bf16 or half with any majors; A, B: e4m3 or e5m2, or both int8, K-major. N: a
// multiple of 8 that wgmma_instructions.cuh lists, of int8 one of 16.
template <class A, class B, int N, Major kA = Major::k, Major kB = Major::k>
__device__ __forceinline__ void wgmma(Accumulator<A> (&d)[N / 2], MatrixDescriptor a, MatrixDescriptor b,
                                      bool accumulate WEFT_WHERE) {
    static_assert(sizeof(A) == sizeof(B) && (sizeof(A) == 2 || (kA == Major::k && kB == Major::k)));
#if defined(WEFT_EMULATOR)
    detail::issue_wgmma<A, B, N, kA, kB>("wgmma", d, nullptr, a.bits(), b.bits(), accumulate, where);
#else
    detail::Wgmma<A, B, N>::template run<kA, kB>(d, a.bits(), b.bits(), accumulate);
#endif
}

// The same with A in registers.
template <class A, class B, int N, Major kB = Major::k>
__device__ __forceinline__ void wgmma(Accumulator<A> (&d)[N / 2], const uint32_t (&a)[4], MatrixDescriptor b,
                                      bool accumulate WEFT_WHERE) {
    static_assert(sizeof(A) == sizeof(B) && (sizeof(A) == 2 || kB == Major::k));
#if defined(WEFT_EMULATOR)
    detail::issue_wgmma<A, B, N, Major::k, kB>("wgmma (A in registers)", d, a, 0, b.bits(), accumulate,
                                               where);
#else
    detail::Wgmma<A, B, N>::template run<kB>(d, a, b.bits(), accumulate);
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
