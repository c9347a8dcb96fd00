// Vectors: the unit in which kernels move memory, with tails and unaligned bases.
#pragma once

#include <cstdint>
#include <cstring>

#include "kit/ptx/memory.cuh"
#include "kit/target.h"
#include "weft/tensor.h"

namespace weft::inline WEFT_TARGET::kit {

// N consecutive elements. The default is 16 bytes, the widest access of a thread; N elements of a wider type
// are moved as several 16-byte accesses, of a narrower type as one of 8 or 4 bytes.
template <class T, int N = 16 / static_cast<int>(sizeof(T))>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Vec {
    static constexpr int kSize = N;
    T at[N];
    __host__ __device__ T& operator[](int i) { return at[i]; }
    __host__ __device__ const T& operator[](int i) const { return at[i]; }
};

// The accesses that a vector is moved by. A vector that waits for its use is best kept so: unpacked, it would be
// waited for where it is loaded, before the next load.
template <class T, int N>
struct Words {
    static constexpr int kBytes = sizeof(Vec<T, N>) < 16 ? static_cast<int>(sizeof(Vec<T, N>)) : 16;
    static constexpr int kCount = static_cast<int>(sizeof(Vec<T, N>)) / kBytes;
    using Word = detail::Raw<Vec<std::uint8_t, kBytes>>;
    Word at[kCount];
};

template <class T, int N>
__device__ __forceinline__ Words<T, N> as_words(const Vec<T, N>& vector) {
    Words<T, N> words;
    memcpy(&words, static_cast<const void*>(&vector), sizeof(vector));
    return words;
}
template <class T, int N>
__device__ __forceinline__ Vec<T, N> as_vector(const Words<T, N>& words) {
    Vec<T, N> vector;
    memcpy(static_cast<void*>(&vector), &words, sizeof(vector));
    return vector;
}

// The same words, but the compiler cannot tell: what was made of them before is made again, and need not stay in
// registers beside them from one use to the next.
template <class T, int N>
__device__ __forceinline__ Words<T, N> opaque(Words<T, N> words) {
#if !defined(WEFT_EMULATOR) && defined(__CUDA_ARCH__)
    static_assert(Words<T, N>::kBytes == 16);
#pragma unroll
    for (uint4& word : words.at) asm volatile("" : "+r"(word.x), "+r"(word.y), "+r"(word.z), "+r"(word.w));
#endif
    return words;
}

// The same number, but the compiler cannot tell what it is the sum of.
__device__ __forceinline__ std::int64_t opaque(std::int64_t number) {
#if !defined(WEFT_EMULATOR) && defined(__CUDA_ARCH__)
    asm("" : "+l"(number));
#endif
    return number;
}
// How many answers a warp keeps at a time without words for them.
inline constexpr int kPredicates = 7;
// The same number, but neither compiler can tell that it has seen it before: what was found out with it is found out again,
// which takes less than to keep many answers. (Blocks have no third axis.)
__device__ __forceinline__ int again(int& number) {
#if !defined(WEFT_EMULATOR) && defined(__CUDA_ARCH__)
    asm volatile("{.reg .b32 zero; mov.b32 zero, %%tid.z; add.s32 %0, %0, zero;}" : "+r"(number));
#endif
    return number;
}

// The address must be aligned to alignof(Vec<T, N>). `policy`: none or an L2Policy.
template <int N, class T, class... Policy>
__device__ __forceinline__ Words<T, N> load_words(const T* from, Policy... policy) {
    Words<T, N> words;
#pragma unroll
    for (int i = 0; i < Words<T, N>::kCount; ++i)
        words.at[i] = load(reinterpret_cast<const typename Words<T, N>::Word*>(from) + i, policy...);
    return words;
}
template <int N, class T, class... Policy>
__device__ __forceinline__ Vec<T, N> load_aligned(const T* from, Policy... policy) {
    return as_vector<T, N>(load_words<N>(from, policy...));
}
template <class T, int N>
__device__ __forceinline__ void store_aligned(T* to, const Vec<T, N>& vector) {
    const Words<T, N> words = as_words(vector);
#pragma unroll
    for (int i = 0; i < Words<T, N>::kCount; ++i)
        store(reinterpret_cast<typename Words<T, N>::Word*>(to) + i, words.at[i]);
}

// Elements [0, count) from memory that is aligned to the element only; the others are `fill`.
template <int N, class T>
__device__ __forceinline__ Vec<T, N> load_elements(const T* from, int count, T fill) {
    Vec<T, N> vector;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        vector[i] = fill;
        if (i < count) vector[i] = from[i];
    }
    return vector;
}
template <class T, int N>
__device__ __forceinline__ void store_elements(T* to, const Vec<T, N>& vector, int count) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
        if (i < count) to[i] = vector[i];
    }
}

// Words that were put together from elements, as if they had come from memory. Where a vector may be either, the compiler
// would else take apart the loaded one at once, and wait for it there, before the next load.
template <class T, int N>
__device__ __forceinline__ Words<T, N> words_of_elements(const Vec<T, N>& vector) {
    if constexpr (Words<T, N>::kBytes == 16) return opaque<T, N>(as_words(vector));
    return as_words(vector);
}

// Whether a whole vector of shorter elements may be moved by four bytes at a time, as one of a row that begins anywhere else
// than at a vector mostly may.
using FourBytes = std::uint32_t;
template <int N, class T>
__device__ __forceinline__ bool has_units(const T* at) {
    return sizeof(T) < sizeof(FourBytes) && N * sizeof(T) % sizeof(FourBytes) == 0 &&
           reinterpret_cast<std::uintptr_t>(at) % sizeof(FourBytes) == 0;
}
template <int N, class T>
__device__ __forceinline__ Words<T, N> load_units(const T* from) {
    FourBytes units[N * sizeof(T) / sizeof(FourBytes) + 1];
#pragma unroll
    for (int i = 0; i < static_cast<int>(N * sizeof(T) / sizeof(FourBytes)); ++i)
        units[i] = load(reinterpret_cast<const FourBytes*>(from) + i);
    Words<T, N> words;
    memcpy(&words, units, N * sizeof(T));
    return words;
}
template <class T, int N>
__device__ __forceinline__ void store_units(T* to, const Vec<T, N>& vector) {
    FourBytes units[N * sizeof(T) / sizeof(FourBytes) + 1];
    memcpy(units, static_cast<const void*>(&vector), N * sizeof(T));
#pragma unroll
    for (int i = 0; i < static_cast<int>(N * sizeof(T) / sizeof(FourBytes)); ++i)
        store(reinterpret_cast<FourBytes*>(to) + i, units[i]);
}

// Elements [0, count) of a vector: one access where it is whole and `aligned` says that its address allows it
// (the same for the whole grid), else units where it is whole, element by element otherwise. Nothing is touched where
// count <= 0.
template <int N, class T>
__device__ __forceinline__ Words<T, N> load_vector_words(const T* from, int count, bool aligned,
                                                         T fill = T()) {
    if (aligned && count >= N) return load_words<N>(from);
    if (count >= N && has_units<N>(from)) return load_units<N>(from);
    return words_of_elements(load_elements<N>(from, count, fill));
}
template <int N, class T>
__device__ __forceinline__ Vec<T, N> load_vector(const T* from, int count, bool aligned, T fill = T()) {
    return as_vector<T, N>(load_vector_words<N>(from, count, aligned, fill));
}
template <class T, int N>
__device__ __forceinline__ void store_vector(T* to, const Vec<T, N>& vector, int count, bool aligned) {
    if (aligned && count >= N) {
        store_aligned(to, vector);
    } else if (count >= N && has_units<N>(to)) {
        store_units(to, vector);
    } else {
        store_elements(to, vector, count);
    }
}

// Host: whether a tensor's first element is where a vector of `elements` may be loaded whole.
inline std::int64_t vector_alignment(DType dtype, int elements) {
    const std::int64_t bytes = static_cast<std::int64_t>(elements) * bits(dtype) / 8;
    return bytes < 16 ? bytes : 16;
}
inline bool begins_aligned(const Tensor& tensor, int elements) {
    const std::int64_t alignment = vector_alignment(tensor.dtype, elements);
    return alignment > 0 &&
           reinterpret_cast<std::uintptr_t>(tensor.data) % static_cast<std::uintptr_t>(alignment) == 0;
}
// And whatever lies along an axis, whose elements are neighbours.
inline bool axis_aligned(const Tensor& tensor, int axis, int elements) {
    if (!begins_aligned(tensor, elements)) return false;
    const std::int64_t alignment = vector_alignment(tensor.dtype, elements);
    for (int i = 0; i < tensor.rank; ++i) {
        if (i != axis && tensor.shape[i] > 1 && weft::bytes(tensor.dtype, tensor.stride[i]) % alignment != 0)
            return false;
    }
    return true;
}
inline bool rows_aligned(const Tensor& tensor, int elements) {
    return axis_aligned(tensor, tensor.rank - 1, elements);
}

}  // namespace weft::inline WEFT_TARGET::kit
