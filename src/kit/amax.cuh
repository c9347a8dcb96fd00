// The largest magnitude of a tensor: a pass in which every block finds that of its share.
#pragma once

#include "kit/elementwise.cuh"
#include "kit/reduce.cuh"

namespace weft::inline WEFT_TARGET::kit {

inline constexpr int kAmaxBatch = 4;

// Of the tiles that this block's threads own, the same in all of them. `combine` is Max or MaxOrNan.
template <class T, int kWidth, class Combine>
__device__ __forceinline__ float block_amax(const T* x, std::int64_t stride, bool aligned,
                                            const RowTiles& tiles, Combine combine) {
    float amax = 0.0f;
    for_each_tile<kWidth, kAmaxBatch>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t step) {
        Vec<T, kWidth> vectors[kAmaxBatch];
        load_batch(vectors, x + row * stride, tiles.dim, column, step, aligned);
#pragma unroll
        for (int b = 0; b < kAmaxBatch; ++b) {
#pragma unroll
            for (int i = 0; i < kWidth; ++i) amax = combine(amax, fabsf(to_float(vectors[b][i])));
        }
    });
    BlockGroup group{.lanes = static_cast<int>(blockDim.x)};
    return group.reduce(amax, combine);
}

}  // namespace weft::inline WEFT_TARGET::kit
