// reduce's kernel.
#pragma once

#include "kit/convert.cuh"
#include "kit/divisor.cuh"
#include "kit/ptx/pdl.cuh"
#include "kit/reduce.cuh"
#include "kit/vector.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

enum class ReduceKind { sum, max, amax };

// Rows, each cut into chunks of `chunk` units: vectors, or elements where rows of x and factor are not aligned alike.
struct ReduceParams {
    const void *x, *factor;  // factor may be null
    std::int64_t x_stride, factor_stride, rows, dim, chunk;
    kit::Divisor chunks;    // of a row; of few rows
    int lanes, lanes_log2;  // threads that share a chunk
    bool vectors, whole;    // whole: rows are whole vectors
    ReduceKind kind;
    void* out;  // one result a chunk
    DType out_dtype;
    bool partial;       // stored as they were summed
    std::int64_t mean;  // divide by it; -1: do not
};

// What sums and maxima are kept in.
template <class T>
using Sum = std::conditional_t<std::is_integral_v<T>, long long, float>;

// The identity, and the function; a maximum keeps NaN.
template <class Acc, ReduceKind kKind>
struct Combine {
    static __device__ __forceinline__ Acc identity() {
        if constexpr (kKind != ReduceKind::max) {
            return 0;
        } else if constexpr (std::is_integral_v<Acc>) {
            return -0x7fffffffffffffff - 1;
        } else {
            return -INFINITY;
        }
    }
    __device__ __forceinline__ Acc operator()(Acc a, Acc b) const {
        if constexpr (kKind == ReduceKind::sum) {
            return a + b;
        } else {
            return a > b || a != a ? a : b;
        }
    }
};

template <class T>
__device__ __forceinline__ Sum<T> widened(T value) {
    if constexpr (std::is_integral_v<T>) {
        return value;
    } else {
        return kit::to_float(value);
    }
}

// A thread's terms. Neighbouring elements of a vector are summed apart: short chains of roundings.
template <class T, ReduceKind kKind>
struct Terms {
    static constexpr int kWidth = 16 / static_cast<int>(sizeof(T)), kBatch = 4;
    static constexpr int kChains = std::is_integral_v<T> ? 1 : kWidth;
    using Acc = Sum<T>;
    Combine<Acc, kKind> combine;
    Acc found[kChains];

    __device__ __forceinline__ Terms() {
#pragma unroll
        for (Acc& one : found) one = combine.identity();
    }
    __device__ __forceinline__ void add(int i, T x, const T* factor) {
        Acc term = widened(x);
        if (factor != nullptr) term *= widened(*factor);
        if constexpr (kKind == ReduceKind::amax) term = term < 0 ? -term : term;
        found[i % kChains] = combine(found[i % kChains], term);
    }
    __device__ __forceinline__ void add(const kit::Words<T, kWidth>& x, const kit::Words<T, kWidth>& factor,
                                        bool multiply) {
        const auto vector = kit::as_vector<T, kWidth>(x), by = kit::as_vector<T, kWidth>(factor);
        if (multiply) {
#pragma unroll
            for (int i = 0; i < kWidth; ++i) add(i, vector[i], &by[i]);
        } else {
#pragma unroll
            for (int i = 0; i < kWidth; ++i) add(i, vector[i], nullptr);
        }
    }
    __device__ __forceinline__ Acc all() const {
        Acc result = found[0];
#pragma unroll
        for (int i = 1; i < kChains; ++i) result = combine(result, found[i]);
        return result;
    }

    // Elements [first, last), one a thread at a time.
    __device__ __forceinline__ void elements(const T* x, const T* factor, std::int64_t first,
                                             std::int64_t last, int thread, int lanes) {
        int chain = 0;
        for (std::int64_t i = first + thread; i < last; i += lanes)
            add(chain++ & (kWidth - 1), x[i], factor != nullptr ? factor + i : nullptr);
    }
    // Vectors [first, last) of aligned memory, a batch of loads in flight together.
    template <class Index>
    __device__ __forceinline__ void vectors(const T* x, const T* factor, Index first, Index last, int thread,
                                            int lanes) {
        kit::Words<T, kWidth> words[kBatch], by[kBatch]{};
        for (Index at = first + thread; at < last; at += kBatch * lanes) {
#pragma unroll
            for (int b = 0; b < kBatch; ++b) {
                const Index one = at + b * lanes;
                if (one < last) words[b] = kit::load_words<kWidth>(x + std::int64_t{one} * kWidth);
                if (one < last && factor != nullptr)
                    by[b] = kit::load_words<kWidth>(factor + std::int64_t{one} * kWidth);
            }
#pragma unroll
            for (int b = 0; b < kBatch; ++b) {
                if (at + b * lanes < last) add(words[b], by[b], factor != nullptr);
            }
        }
    }
};

// The terms of one chunk of a row. What lies before a row's first whole vector, or behind its last one, is of the first
// chunk.
template <class T, ReduceKind kKind>
__device__ __forceinline__ Sum<T> chunk_terms(const ReduceParams& p, std::int64_t row, std::int64_t chunk,
                                              int thread) {
    constexpr int kWidth = Terms<T, kKind>::kWidth;
    const T* x = static_cast<const T*>(p.x) + row * p.x_stride;
    const T* factor = p.factor != nullptr ? static_cast<const T*>(p.factor) + row * p.factor_stride : nullptr;
    Terms<T, kKind> terms;
    if (!p.vectors) {
        terms.elements(x, factor, chunk * p.chunk, min((chunk + 1) * p.chunk, p.dim), thread, p.lanes);
        return terms.all();
    }
    if (p.whole) {
        terms.vectors(x, factor, static_cast<int>(chunk * p.chunk),
                      static_cast<int>(min((chunk + 1) * p.chunk, p.dim / kWidth)), thread, p.lanes);
        return terms.all();
    }
    const auto beyond = static_cast<std::int64_t>(reinterpret_cast<uintptr_t>(x) % 16 / sizeof(T));
    const std::int64_t head = min((kWidth - beyond) % kWidth, p.dim), whole = (p.dim - head) / kWidth;
    terms.vectors(x + head, factor != nullptr ? factor + head : nullptr, chunk * p.chunk,
                  min((chunk + 1) * p.chunk, whole), thread, p.lanes);
    if (chunk == 0) {
        terms.elements(x, factor, 0, head, thread, p.lanes);
        terms.elements(x, factor, head + whole * kWidth, p.dim, thread, p.lanes);
    }
    return terms.all();
}

template <class Acc>
__device__ __forceinline__ void store_result(const ReduceParams& p, std::int64_t at, Acc value) {
    if (p.partial) {
        static_cast<Acc*>(p.out)[at] = value;
    } else if (p.out_dtype == DType::int32) {
        const auto wide = static_cast<long long>(value);
        static_cast<int*>(p.out)[at] = static_cast<int>(max(min(wide, 0x7fffffffll), -0x80000000ll));
    } else if (p.out_dtype == DType::int64) {
        static_cast<long long*>(p.out)[at] = static_cast<long long>(value);
    } else {
        const auto result = static_cast<float>(value);
        kit::store_as(p.out_dtype, p.out, at, p.mean >= 0 ? result / static_cast<float>(p.mean) : result);
    }
}

// What     out[row, chunk] = sum, max or max |·| of a chunk of a row
// Mapping  lanes of a warp, or a block, share a chunk: neighbours read neighbouring vectors, four each in flight
// Traffic  x (and factor) once: bound by memory
// Needs    lanes a power of two up to 32, or the whole block; vectors: rows of x and factor begin equally far from a
//          multiple of 16 bytes. A second launch of one chunk a row finds what the chunks' results come to
template <class T>
__global__ void __launch_bounds__(256, 3) reduce(ReduceParams p) {
    kit::dependency_wait();
    kit::dependents_launch();
    kit::Group<> group{.lanes = p.lanes};
    const std::int64_t item =
        std::int64_t{blockIdx.x} * (blockDim.x >> p.lanes_log2) + (threadIdx.x >> p.lanes_log2);
    const bool present = item < p.rows * p.chunks.divisor;
    // A row of more chunks than one is one of few.
    const std::int64_t row = p.chunks.divisor == 1 ? item : p.chunks.quotient(static_cast<unsigned>(item));
    const auto find = [&]<ReduceKind kKind>() {
        Combine<Sum<T>, kKind> combine;
        Sum<T> found = combine.identity();
        if (present) found = chunk_terms<T, kKind>(p, row, item - row * p.chunks.divisor, group.thread());
        found = group.reduce(found, combine);
        if (present && group.thread() == 0) store_result(p, item, found);
    };
    switch (p.kind) {
        case ReduceKind::sum: return find.template operator()<ReduceKind::sum>();
        case ReduceKind::max: return find.template operator()<ReduceKind::max>();
        default: return find.template operator()<ReduceKind::amax>();
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
