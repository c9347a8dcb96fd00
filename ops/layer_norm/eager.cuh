// layer_norm with the bits of PyTorch's F.layer_norm: the order of its running moments and every rounding.
#pragma once

#include "kit/eager_norm.cuh"
#include "ops/layer_norm/kernel.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// Mean and sum of squared differences of `count` elements.
struct Welford {
    float mean, squares, count;
};

__device__ __forceinline__ Welford add(const Welford& w, float x) {
    const float difference = x - w.mean;
    const float count = w.count + 1.0f;
    const float mean = w.mean + difference * (1.0f / count);
    return {mean, w.squares + difference * (x - mean), count};
}

// Of two halves, the lower one first. Not symmetric in its roundings.
__device__ __forceinline__ Welford merge(const Welford& low, const Welford& high) {
    const float difference = low.mean - high.mean;
    const float count = high.count + low.count;
    if (!(count > 0.0f)) return {0.0f, 0.0f, count};
    const float share = 1.0f / count;
    const float high_share = high.count * share, low_share = low.count * share;
    return {high_share * high.mean + low_share * low.mean,
            high.squares + low.squares + difference * difference * high.count * low_share, count};
}

struct WelfordScratch {
    Welford warps[4];
};

// Over the block's 4 warps; thread 0's result for all.
__device__ __forceinline__ Welford merge_block(Welford w) {
    for (int apart = 16; apart > 0; apart /= 2) {
        w = merge(w, {kit::shuffle_down(w.mean, apart), kit::shuffle_down(w.squares, apart),
                      kit::shuffle_down(w.count, apart)});
    }
    WelfordScratch& scratch = kit::block_shared<WelfordScratch>();
    if (threadIdx.x % 32 == 0) scratch.warps[threadIdx.x / 32] = w;
    __syncthreads();
    return merge(merge(scratch.warps[0], scratch.warps[2]), merge(scratch.warps[1], scratch.warps[3]));
}

// What    as layer_norm_kernel, but by running moments, merged in the order of PyTorch's kernel, and a modulation in steps
// Mapping a block of 128 threads a row; thread t takes the elements 4·(t + 128·k) + j, k outer, j inner
// Traffic x is read twice (the second time from a cache), every other operand once
// Needs   blockDim.x = 128, dim a multiple of 4, rows aligned for 4 elements. The compiler contracts products
//         and sums here as it does in PyTorch's build: written otherwise, other bits come out
template <class T>
__global__ void __launch_bounds__(128) layer_norm_eager_kernel(const __grid_constant__ kit::MixedNorm p) {
    kit::dependency_wait();
    kit::dependents_launch();
    const kit::BlockGroup block{static_cast<int>(blockDim.x)};
    kit::StreamedRow<T, 4> row(block, p.shape, p.places, p.in);
    row.load();

    Welford own{0.0f, 0.0f, 0.0f};
    row.each([&](std::int64_t, const float (&x)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) own = add(own, x[i]);
    });
    const Welford all = merge_block(own);
    const float mean = all.mean;
    const float scale = rsqrtf(all.squares / static_cast<float>(p.shape.dim) + p.eps);

    row.each([&](std::int64_t index, float (&x)[4]) {
        float w[4], b[4];
        kit::load_floats(p.weight.scale, row.part, index, 1.0f, w);
        kit::load_floats(p.weight.shift, row.part, index, -0.0f, b);
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = w[i] * (scale * (x[i] - mean)) + b[i];
        kit::store_in_steps<T>(p, row.part, index, x);
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
