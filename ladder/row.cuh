// Going along a row with a block, in vectors: what the rungs of several topics stand on.
#pragma once

#include "ladder/block_sum.cuh"

namespace weft::inline WEFT_TARGET {

// kWidth elements that one load or store moves: 16 bytes at most.
template <class T, int kWidth>
struct alignas(sizeof(T) * kWidth) Pack {
    T at[kWidth];
};

// `each(vector)` for every vector of kWidth elements of a row, and `each_one(i)` for the elements that belong to none:
// those before the first whole vector of 16 bytes, where an odd row length makes a row start anywhere, and those behind
// the last.
template <int kWidth, class T, class Vector, class One>
__device__ __forceinline__ void for_row(const T* row, std::int64_t dim, Vector each, One each_one) {
    constexpr int kBytes = kWidth * sizeof(T);
    const auto past = static_cast<int>(reinterpret_cast<std::uintptr_t>(row) % kBytes / sizeof(T));
    const std::int64_t before = past == 0 ? 0 : min(static_cast<std::int64_t>(kWidth - past), dim);
    const std::int64_t vectors = (dim - before) / kWidth, done = before + vectors * kWidth;
    for (std::int64_t i = threadIdx.x; i < vectors; i += kBlock) each(row + before + i * kWidth);
    const std::int64_t left = before + dim - done;
    for (std::int64_t i = threadIdx.x; i < left; i += kBlock) each_one(i < before ? i : done + i - before);
}

}  // namespace weft::inline WEFT_TARGET
