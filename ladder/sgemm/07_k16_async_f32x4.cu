// A product of matrices, tiles of 128 by 128, in stages of 16 along k that are copied by vectors.
//
// Idea        Twice the tile is half the traffic from L2, twice the slice half the barriers. Neither operand is
//             transposed, so that both are copied 16 bytes at a time: a thread reads A as four neighbours along k, the
//             same for half a warp, and B as two vectors of four columns.
// Change      256 threads, three stages (ladder/stages.cuh), vectors on both sides of shared memory.
// Prediction  12 vectors from shared memory give 256 multiply-adds; what is left is the issue of the multiply-adds
//             themselves. (10 shows what else is left.)
#include "ladder/row.cuh"
#include "ladder/sgemm/staged.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using Four = Pack<float, 4>;

// Thread (x, y) of 16 by 16 has rows y + 16 i, and columns 4 x and 64 + 4 x with the three behind each.
__device__ __forceinline__ void multiply_stage(float (&sums)[8][8], const FloatStage& stage, int x, int y) {
#pragma unroll
    for (int k = 0; k < kStagedSlice; k += 4) {
        Four a[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) a[i] = *reinterpret_cast<const Four*>(&stage.a[y + 16 * i][k]);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const Four left = *reinterpret_cast<const Four*>(&stage.b[k + j][4 * x]);
            const Four right = *reinterpret_cast<const Four*>(&stage.b[k + j][64 + 4 * x]);
#pragma unroll
            for (int i = 0; i < 64; ++i)
                sums[i / 8][i % 8] =
                    fmaf(a[i / 8].at[j], i % 8 < 4 ? left.at[i % 4] : right.at[i % 4], sums[i / 8][i % 8]);
        }
    }
}

__global__ void __launch_bounds__(kStagedThreads) gemm(const float* a, const float* b, float* c, Sizes s) {
    const Corner at = corner_of(s);
    const int x = static_cast<int>(threadIdx.x) % 16, y = static_cast<int>(threadIdx.x) / 16;
    float sums[8][8] = {};
    for_stages<kStagedStages>(
        kit::dynamic_shared<FloatStage>(), (s.k + kStagedSlice - 1) / kStagedSlice,
        [&](FloatStage& to, std::int64_t step) { bring_stage(to, a, b, s, at, step * kStagedSlice); },
        [&](const FloatStage& now) { multiply_stage(sums, now, x, y); });
#pragma unroll
    for (int i = 0; i < 64; ++i) {
        const std::int64_t row = at.row + y + i / 8 * 16, column = at.column + 4 * x + i % 8 / 4 * 64 + i % 4;
        if (row < s.m && column < s.n) c[row * s.n + column] = sums[i / 8][i % 8];
    }
}

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_product(op, DType::fp32, DType::fp32); },
    +[](const Gemm& op, Context& context) {
        launch_product(kRung.name(), gemm, kStagedTile, kStagedTile, dim3(kStagedThreads), op, context,
                       kStagedBytes);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
