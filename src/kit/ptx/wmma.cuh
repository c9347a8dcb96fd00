// WMMA: matrix products of a warp by the C++ interface, whose fragments say nothing of which lane holds what: matrices
// are loaded from memory, multiplied, and stored. A and B row major, fp32 sums.
//
// The host model deals the elements out in turn, which is no GPU's way: a kernel that counts on one is found wrong.
#pragma once

#if !defined(WEFT_EMULATOR)
#include <mma.h>
#endif

#include "kit/ptx/mma.cuh"

namespace weft::inline WEFT_TARGET::kit {

// T: half (16x16x16, 32x8x16, 8x32x16) or tf32 (16x16x8), which fp32 memory holds.
template <class T>
using WmmaStored = std::conditional_t<std::is_same_v<T, tf32>, float, T>;

#if defined(WEFT_EMULATOR)
namespace detail {

// kRows by kColumns elements, number 32 i + lane in at[i].
template <int kRows, int kColumns>
struct WmmaPart {
    static constexpr int kCount = kRows * kColumns / 32;
    float at[kCount];
};

template <int M, int N, int K>
struct WmmaCall {
    WmmaPart<M, N>* sums;
    const WmmaPart<M, K>* a;
    const WmmaPart<K, N>* b;
};

template <int M, int N, int K>
void complete_wmma(void* const* lanes, uint32_t mask) {
    if (mask != 0xffffffffu)
        emulator::fault_in_lane(__builtin_ctz(mask), "wmma: a lane of the warp has exited");
    const auto call = [lanes](int element) -> const WmmaCall<M, N, K>& {
        return *static_cast<const WmmaCall<M, N, K>*>(lanes[element % 32]);
    };
    float sums[M][N], a[M][K], b[K][N];
    for (int i = 0; i < M * N; ++i) sums[i / N][i % N] = call(i).sums->at[i / 32];
    for (int i = 0; i < M * K; ++i) a[i / K][i % K] = call(i).a->at[i / 32];
    for (int i = 0; i < K * N; ++i) b[i / N][i % N] = call(i).b->at[i / 32];
    add_product(sums, a, b);
    for (int i = 0; i < M * N; ++i) call(i).sums->at[i / 32] = sums[i / N][i % N];
}

}  // namespace detail

template <class T, int M, int N, int K>
struct WmmaA {
    detail::WmmaPart<M, K> part;
};
template <class T, int M, int N, int K>
struct WmmaB {
    detail::WmmaPart<K, N> part;
};
template <int M, int N, int K>
struct WmmaSums {
    detail::WmmaPart<M, N> part;
};
#else
template <class T>
using WmmaElement = std::conditional_t<std::is_same_v<T, tf32>, nvcuda::wmma::precision::tf32, T>;
template <class T, int M, int N, int K>
struct WmmaA {
    nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, M, N, K, WmmaElement<T>, nvcuda::wmma::row_major> part;
};
template <class T, int M, int N, int K>
struct WmmaB {
    nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, M, N, K, WmmaElement<T>, nvcuda::wmma::row_major> part;
};
template <int M, int N, int K>
struct WmmaSums {
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, M, N, K, float> part;
};
#endif

namespace detail {

// `from`: 32-byte aligned; rows `pitch` elements apart, whole 16 bytes.
template <class T, int kRows, int kColumns, class Part>
__device__ __forceinline__ void load_wmma(Part& part, const WmmaStored<T>* from, unsigned pitch) {
#if defined(WEFT_EMULATOR)
    emulator::check_aligned("wmma_load", from, 32);
    const int lane = static_cast<int>(emulator::self().lane);
    for (int i = 0; i < Part::kCount; ++i) {
        const int element = 32 * i + lane;
        const WmmaStored<T> value = from[element / kColumns * pitch + element % kColumns];
        if constexpr (std::is_same_v<T, tf32>) {
            part.at[i] = widen<tf32>(__float_as_uint(value), 0);
        } else {
            part.at[i] = widen<T>(__half_as_ushort(value), 0);
        }
    }
#else
    nvcuda::wmma::load_matrix_sync(part, from, pitch);
#endif
}

}  // namespace detail

template <class T, int M, int N, int K>
__device__ __forceinline__ void wmma_load(WmmaA<T, M, N, K>& a, const WmmaStored<T>* from, unsigned pitch) {
    detail::load_wmma<T, M, K>(a.part, from, pitch);
}
template <class T, int M, int N, int K>
__device__ __forceinline__ void wmma_load(WmmaB<T, M, N, K>& b, const WmmaStored<T>* from, unsigned pitch) {
    detail::load_wmma<T, K, N>(b.part, from, pitch);
}

template <int M, int N, int K>
__device__ __forceinline__ void wmma_clear(WmmaSums<M, N, K>& sums) {
#if defined(WEFT_EMULATOR)
    for (float& sum : sums.part.at) sum = 0.0f;
#else
    nvcuda::wmma::fill_fragment(sums.part, 0.0f);
#endif
}

// sums += a b. Of tf32 the low bits of a and b do not count: who wants them rounded has rounded them.
template <class T, int M, int N, int K>
__device__ __forceinline__ void wmma_multiply(WmmaSums<M, N, K>& sums, const WmmaA<T, M, N, K>& a,
                                              const WmmaB<T, M, N, K>& b WEFT_WHERE) {
#if defined(WEFT_EMULATOR)
    detail::WmmaCall<M, N, K> call{&sums.part, &a.part, &b.part};
    emulator::warp_collective("wmma_multiply", &call, &detail::complete_wmma<M, N, K>, where);
#else
    nvcuda::wmma::mma_sync(sums.part, a.part, b.part, sums.part);
#endif
}

// Row major, `to` 32-byte aligned; rows `pitch` elements apart, whole 16 bytes.
template <int M, int N, int K>
__device__ __forceinline__ void wmma_store(float* to, const WmmaSums<M, N, K>& sums, unsigned pitch) {
#if defined(WEFT_EMULATOR)
    emulator::check_aligned("wmma_store", to, 32);
    const int lane = static_cast<int>(emulator::self().lane);
    for (int i = 0; i < M * N / 32; ++i) {
        const int element = 32 * i + lane;
        to[element / N * pitch + element % N] = sums.part.at[i];
    }
#else
    nvcuda::wmma::store_matrix_sync(to, sums.part, pitch, nvcuda::wmma::mem_row_major);
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
