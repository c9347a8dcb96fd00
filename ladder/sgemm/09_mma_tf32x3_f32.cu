// A product of matrices on tensor cores in TF32, as exact as fp32.
//
// Idea        An element is the sum of two TF32 numbers, 22 of its 24 bits: x y = X Y + X y' + x' Y, where the small parts'
//             own product is below what fp32 keeps. Three mma in place of one.
// Change      Elements are split in registers; mma.sync, whose fragments are known, in place of WMMA.
// Prediction  A third of 08's arithmetic, above 07's, and right.
#include "kit/ptx/mma.cuh"
#include "ladder/sgemm/staged.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// Rounded to TF32: the nearest, but no finite number becomes infinite.
__device__ __forceinline__ std::uint32_t round_tf32(float x) {
    const std::uint32_t bits = __float_as_uint(x);
    const bool carries = (bits & 0x7f800000u) < 0x7f000000u;
    return (carries ? bits + 0xfffu + (bits >> 13 & 1) : bits) & 0xffffe000u;
}

// A fragment as large and small parts; `safe` are the large ones with zeros for what is not finite, where there is no
// small part, and infinity times nothing must not be NaN.
template <int kCount>
struct Split {
    std::uint32_t large[kCount], small[kCount], safe[kCount];

    __device__ __forceinline__ void take(int i, float x) {
        const bool finite = (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u;
        large[i] = finite ? round_tf32(x) : __float_as_uint(x);
        safe[i] = finite ? large[i] : 0;
        small[i] = finite ? round_tf32(x - __uint_as_float(large[i])) : 0;
    }
};

// Eight warps, two by four, have 64 by 32 outputs each. Lane 4 g + t has rows g and columns t (kit/ptx/mma.cuh).
__device__ __forceinline__ void multiply_stage(float (&sums)[4][4][4], const FloatStage& stage, int down,
                                               int across) {
    const int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
    for (int k = 0; k < kStagedSlice; k += 8) {
        Split<2> b[4];
#pragma unroll
        for (int i = 0; i < 8; ++i) b[i / 2].take(i % 2, stage.b[k + t + i % 2 * 4][across + i / 2 * 8 + g]);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            Split<4> a;
#pragma unroll
            for (int r = 0; r < 4; ++r) a.take(r, stage.a[down + 16 * i + g + r % 2 * 8][k + t + r / 2 * 4]);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                kit::mma_m16n8k8_tf32(sums[i][j], a.small, b[j].safe);
                kit::mma_m16n8k8_tf32(sums[i][j], a.safe, b[j].small);
                kit::mma_m16n8k8_tf32(sums[i][j], a.large, b[j].large);
            }
        }
    }
}

__global__ void __launch_bounds__(kStagedThreads) gemm(const float* a, const float* b, float* c, Sizes s) {
    const Corner at = corner_of(s);
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int down = warp / 4 * 64, across = warp % 4 * 32;
    float sums[4][4][4] = {};
    for_stages<kStagedStages>(
        kit::dynamic_shared<FloatStage>(), (s.k + kStagedSlice - 1) / kStagedSlice,
        [&](FloatStage& to, std::int64_t step) { bring_stage(to, a, b, s, at, step * kStagedSlice); },
        [&](const FloatStage& now) { multiply_stage(sums, now, down, across); });
#pragma unroll
    for (int i = 0; i < 64; ++i) {
        const std::int64_t row = at.row + down + i / 16 * 16 + lane / 4 + i % 4 / 2 * 8,
                           column = at.column + across + i / 4 % 4 * 8 + lane % 4 * 2 + i % 2;
        if (row < s.m && column < s.n) c[row * s.n + column] = sums[i / 16][i / 4 % 4][i % 4];
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
