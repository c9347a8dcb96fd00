// What the rungs on WMMA share: a warp's fragments, and the way of its sums to the output.
#pragma once

#include "kit/ptx/wmma.cuh"
#include "ladder/hgemm/staged.cuh"

namespace weft::inline WEFT_TARGET {

inline constexpr unsigned kAligned = 32;  // what WMMA takes; the dynamic array begins at any multiple of 16

// Which lane holds what of a fragment is not said, so sums go through shared memory, a fragment at a time; `patch` is
// the warp's own.
template <int kM, int kN>
__device__ __forceinline__ void store_wmma(kit::WmmaSums<kM, kN, 16>& sums, float* patch, __half* c,
                                           const Sizes& s, std::int64_t row, std::int64_t column) {
    kit::wmma_store(patch, sums, kN);
    __syncwarp();
    for (int i = lane_of_warp(); i < kM * kN; i += 32) {
        const std::int64_t r = row + i / kN, k = column + i % kN;
        if (r < s.m && k < s.n) c[r * s.n + k] = __float2half_rn(patch[i]);
    }
    __syncwarp();
}

// Of a warp, 64 by 32 outputs by fragments of kM by kN.
template <int kM, int kN>
struct WarpSums {
    static constexpr int kDown = 64 / kM, kAcross = 32 / kN;
    kit::WmmaSums<kM, kN, 16> at[kDown][kAcross];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < kDown * kAcross; ++i) kit::wmma_clear(at[i / kAcross][i % kAcross]);
    }
    __device__ __forceinline__ void multiply(Stage<Banks::padded>& stage, Warp warp) {
#pragma unroll
        for (int k = 0; k < kStagedSlice; k += 16) {
            kit::WmmaA<__half, kM, kN, 16> a[kDown];
#pragma unroll
            for (int i = 0; i < kDown; ++i)
                kit::wmma_load(a[i], stage.a.chunk(warp.row + kM * i, k / 8), stage.a.kPitch);
#pragma unroll
            for (int j = 0; j < kAcross; ++j) {
                kit::WmmaB<__half, kM, kN, 16> b;
                kit::wmma_load(b, stage.b.at + k * stage.b.kPitch + warp.column + kN * j, stage.b.kPitch);
#pragma unroll
                for (int i = 0; i < kDown; ++i) kit::wmma_multiply(at[i][j], a[i], b);
            }
        }
    }
    // `patches` is where the stages were: nobody reads these any more.
    __device__ __forceinline__ void store(float* patches, __half* c, const Sizes& s, Corner corner,
                                          Warp warp) {
        kit::cp_async_wait<0>();
        __syncthreads();
        float* patch = patches + threadIdx.x / 32 * kM * kN;
#pragma unroll
        for (int i = 0; i < kDown * kAcross; ++i)
            store_wmma(at[i / kAcross][i % kAcross], patch, c, s, corner.row + warp.row + kM * (i / kAcross),
                       corner.column + warp.column + kN * (i % kAcross));
    }
};

template <int kM, int kN, int kStages, Corner (*kOrder)(const Sizes&)>
__global__ void __launch_bounds__(kStagedThreads)
    gemm_wmma(const __half* a, const __half* b, __half* c, Sizes s) {
    using Slices = Stage<Banks::padded>;
    Slices* stages = reinterpret_cast<Slices*>(kit::align_shared<kAligned>(kit::dynamic_shared<char>()));
    const Corner at = kOrder(s);
    const Warp warp = staged_warp();
    WarpSums<kM, kN> sums;
    sums.clear();
    for_stages<kStages>(
        stages, (s.k + kStagedSlice - 1) / kStagedSlice,
        [&](Slices& to, std::int64_t step) { bring_slices(to, a, b, s, at, step * kStagedSlice); },
        [&](Slices& now) { sums.multiply(now, warp); });
    sums.store(reinterpret_cast<float*>(stages), c, s, at, warp);
}

template <int kM, int kN, int kStages, Corner (*kOrder)(const Sizes&)>
void launch_wmma(const char* name, const Gemm& op, Context& context) {
    launch_product(name, gemm_wmma<kM, kN, kStages, kOrder>, kStagedTile, kStagedTile, dim3(kStagedThreads),
                   op, context, kAligned + kStages * sizeof(Stage<Banks::padded>));
}

}  // namespace weft::inline WEFT_TARGET
