// rms_norm with the bits of PyTorch's eager operators: their sum's order and every one of their roundings.
#pragma once

#include "kit/eager_norm.cuh"
#include "ops/rms_norm/kernel.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

struct TreeScratch {
    float at[512];
};

// The sum over a block of rows of `width` threads, both powers of two, width >= 32: in each row in pairs half a row
// apart, then a quarter, and so on; then the rows' sums in the same way.
__device__ __forceinline__ float tree_sum(float value, unsigned width) {
    TreeScratch& scratch = kit::block_shared<TreeScratch>();
    const unsigned thread = threadIdx.x, column = thread % width;
    const auto fold = [&](unsigned apart, bool keeps) {
        scratch.at[thread] = value;
        __syncthreads();
        if (keeps) value = __fadd_rn(value, scratch.at[thread + apart]);
        __syncthreads();
    };
    for (unsigned apart = width / 2; apart >= 32; apart /= 2) fold(apart, column < apart);
    for (int apart = 16; apart > 0; apart /= 2) value = __fadd_rn(value, kit::shuffle_xor(value, apart));
    for (unsigned apart = blockDim.x / 2; apart >= width; apart /= 2) fold(apart, thread < apart);
    if (thread == 0) scratch.at[0] = value;
    __syncthreads();
    return scratch.at[0];
}

// What    as rms_norm_kernel, but x.float(), pow(2), mean, + eps, rsqrt, the products, the sums and the casts each round
// Mapping a block a row; thread t sums the elements 4·(t + k·threads) + j over k, each j = 0…3 for itself, and
//         then adds its four sums: PyTorch's order for a row of a contiguous fp32 tensor
// Traffic x is read twice (the second time from a cache), every other operand once
// Needs   blockDim.x and width as eager_threads says; dim a multiple of 4; rows aligned for 4 elements
template <class T>
__global__ void __launch_bounds__(512) rms_norm_eager_kernel(const __grid_constant__ kit::MixedNorm p,
                                                             unsigned width, float factor, bool cast_first) {
    kit::dependency_wait();
    kit::dependents_launch();
    const kit::BlockGroup block{static_cast<int>(blockDim.x)};
    kit::StreamedRow<T, 4> row(block, p.shape, p.places, p.in);
    row.load();

    float sums[4] = {0, 0, 0, 0};
    row.each([&](std::int64_t, const float (&x)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[i] = __fadd_rn(sums[i], __fmul_rn(x[i], x[i]));
    });
    const float sum = tree_sum(__fadd_rn(__fadd_rn(__fadd_rn(sums[0], sums[1]), sums[2]), sums[3]), width);
    const float scale = rsqrtf(__fadd_rn(__fmul_rn(sum, factor), p.eps));

    row.each([&](std::int64_t index, float (&x)[4]) {
        float w[4];
        kit::load_floats(p.weight.scale, row.part, index, 1.0f, w);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            x[i] = __fmul_rn(x[i], scale);
            if (cast_first) x[i] = kit::round_through<T>(x[i]);
            x[i] = __fmul_rn(x[i], __fadd_rn(w[i], p.weight.offset));
        }
        if (p.weight.shift.data != nullptr) kit::add_in_steps<T>(p.weight.shift, row.part, index, false, x);
        kit::store_in_steps<T>(p, row.part, index, x);
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
