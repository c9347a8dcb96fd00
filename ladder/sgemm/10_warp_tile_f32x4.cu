// A product of matrices, 8 by 16 outputs a thread, two blocks a multiprocessor.
//
// Idea        Shared memory gives 128 bytes a clock, the same for all warps. A thread of 07 reads 16 numbers for 64
//             multiply-adds; one with 8 by 16 outputs reads 24 for 128. A warp's lanes are eight by four, so that its 64 by
//             64 outputs need 64 numbers of each operand, and lanes that want the same get it by one read.
// Change      From 07: twice the outputs a thread, with nearly all registers, in blocks of four warps, of which two share a
//             multiprocessor: while one waits at its barrier, the other multiplies. Slices of 32, so that there are
//             half as many barriers; stores of 16 bytes.
// Prediction  Three quarters of the instructions of 07 that are no multiply-add are gone: 1.3 times as fast, and level with
//             the vendor's library.
#include "ladder/row.cuh"
#include "ladder/sgemm/product.h"
#include "ladder/stages.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using Four = Pack<float, 4>;

constexpr int kTile = 128, kSlice = 32, kStages = 3, kThreads = 128;

// Eight rows of A, read at the same k, lie in different banks: a row is four banks longer than all of them.
struct Stage {
    alignas(16) float a[kTile][kSlice + 4];
    alignas(16) float b[kSlice][kTile];
};

// Four floats, of which `left` exist and the others are zeros.
__device__ __forceinline__ void copy_four(float* to, const float* from, std::int64_t left, bool whole) {
    if (whole) return kit::cp_async_16(to, from, left > 0);
    for (int i = 0; i < 4; ++i) kit::cp_async<4>(to + i, i < left ? from + i : from, i < left);
}

struct Operands {
    const float *a, *b;
    std::int64_t row, column;
    __device__ __forceinline__ void bring(Stage& to, const Sizes& s, std::int64_t k) const {
        const int t = static_cast<int>(threadIdx.x), ra = t / 8, ca = t % 8 * 4, rb = t / 32, cb = t % 32 * 4;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const std::int64_t r = row + ra + 16 * i, left = r < s.m ? s.k - k - ca : 0;
            copy_four(&to.a[ra + 16 * i][ca], left > 0 ? a + r * s.k + k + ca : a, left, s.whole);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const std::int64_t r = k + rb + 4 * i, left = r < s.k ? s.n - column - cb : 0;
            copy_four(&to.b[rb + 4 * i][cb], left > 0 ? b + r * s.n + column + cb : b, left, s.whole);
        }
    }
};

// From (down, across) on a thread has every eighth row, and four of every 16 columns.
__device__ __forceinline__ void multiply_stage(float (&sums)[8][16], const Stage& stage, int down,
                                               int across) {
#pragma unroll 2  // as long as caches of instructions are: 1024 multiply-adds are 16 KiB
    for (int k = 0; k < kSlice; k += 4) {
        Four a[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) a[i] = *reinterpret_cast<const Four*>(&stage.a[down + 8 * i][k]);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            Four b[4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                b[i] = *reinterpret_cast<const Four*>(&stage.b[k + j][across + 16 * i]);
#pragma unroll
            for (int i = 0; i < 128; ++i)
                sums[i / 16][i % 16] = fmaf(a[i / 16].at[j], b[i % 16 / 4].at[i % 4], sums[i / 16][i % 16]);
        }
    }
}

__global__ void __launch_bounds__(kThreads, 2) gemm(const float* a, const float* b, float* c, Sizes s) {
    const Operands from{a, b, blockIdx.x / s.across * kTile, blockIdx.x % s.across * kTile};
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int down = warp / 2 * 64 + lane / 4, across = warp % 2 * 64 + lane % 4 * 4;
    float sums[8][16] = {};
    for_stages<kStages>(
        kit::dynamic_shared<Stage>(), (s.k + kSlice - 1) / kSlice,
        [&](Stage& to, std::int64_t step) { from.bring(to, s, step * kSlice); },
        [&](const Stage& now) { multiply_stage(sums, now, down, across); });
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        const std::int64_t row = from.row + down + i / 4 * 8, column = from.column + across + i % 4 * 16;
        if (row >= s.m) continue;
        float* to = c + row * s.n + column;
        const float* four = &sums[i / 4][i % 4 * 4];
        if (s.whole && column < s.n) *reinterpret_cast<Four*>(to) = Four{four[0], four[1], four[2], four[3]};
        for (int j = 0; j < 4 && !s.whole; ++j) {
            if (column + j < s.n) to[j] = four[j];
        }
    }
}

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_product(op, DType::fp32, DType::fp32); },
    +[](const Gemm& op, Context& context) {
        launch_product(kRung.name(), gemm, kTile, kTile, dim3(kThreads), op, context,
                       kStages * sizeof(Stage));
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
