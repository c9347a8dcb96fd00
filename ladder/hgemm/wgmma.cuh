// What the rungs on wgmma share: a warpgroup's 64 rows of a stage and of many, and the store of its sums.
#pragma once

#include "kit/ptx/wgmma.cuh"
#include "ladder/hgemm/tma.cuh"

namespace weft::inline WEFT_TARGET {

// Issues 64 rows from `row` on by kWide columns by 64 along k. A runs along k, in rows of 128 bytes; B along n: eight of
// its rows are 1024 bytes, a box 64 of them.
template <int kWide, int kHigh>
__device__ __forceinline__ void multiply_stage(float (&sums)[kWide / 2], TmaStage<kWide, kHigh>& stage,
                                               int row, bool first) {
    const auto a = kit::matrix_descriptor(stage.a.chunk(row, 0), kit::Swizzle::bytes128, 1024);
    const auto b = kit::matrix_descriptor(stage.b[0].at, kit::Swizzle::bytes128, 1024, sizeof(stage.b[0]));
#pragma unroll
    for (int i = 0; i < kTmaSlice / 16; ++i)
        kit::wgmma<__half, __half, kWide, kit::Major::k, kit::Major::mn>(sums, a.moved(32 * i),
                                                                         b.moved(2048 * i), !first || i > 0);
}

// A warpgroup's sums of `steps` stages, the ring's from `first` on. The products of a stage are issued before those of
// the one before are waited for, so that the tensor cores always have the next ones; leave(step) says that this warp
// has done with that step's stage, issued() that no more products will come.
struct SayNothing {
    __device__ __forceinline__ void operator()() const {}
};
template <int kWide, int kStages, class Stage, class Leave, class Issued = SayNothing>
__device__ __forceinline__ void multiply_stages(float (&sums)[kWide / 2],
                                                const TmaRing<kWide, kStages, Stage>& ring, int row,
                                                int first, int steps, Leave leave, Issued issued = {}) {
    for (int step = first; step < first + steps; ++step) {
        Stage& stage = ring.await(step);
        kit::wgmma_fence();
        multiply_stage<kWide>(sums, stage, row, step == first);
        kit::wgmma_commit();
        if (step > first) {
            kit::wgmma_wait<1>();
            leave(step - 1);
        }
    }
    issued();
    kit::wgmma_wait<0>();
    kit::wgmma_hold(sums);
    leave(first + steps - 1);
}

// Thread i of the warpgroup, in warp w, has rows 16 w + i mod 32 / 4 and eight on, and pairs of columns.
template <int kWide>
__device__ __forceinline__ void store_sums(const float (&sums)[kWide / 2], __half* c, const Sizes& s,
                                           std::int64_t row, std::int64_t column) {
    row += threadIdx.x % 128 / 32 * 16 + lane_of_warp() / 4, column += lane_of_warp() % 4 * 2;
#pragma unroll
    for (int i = 0; i < kWide / 4; ++i) {
        const std::int64_t r = row + i % 2 * 8, k = column + i / 2 * 8;  // n is a multiple of eight
        if (r < s.m && k < s.n)
            *reinterpret_cast<__half2*>(c + r * s.n + k) = __floats2half2_rn(sums[2 * i], sums[2 * i + 1]);
    }
}

}  // namespace weft::inline WEFT_TARGET
