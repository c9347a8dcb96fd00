// A product of matrices on tensor cores in TF32: wrong on purpose.
//
// Idea        Tensor cores take fp32 as TF32, which keeps 11 of the 24 bits of an element. Sums stay fp32. Collections
//             and frameworks offer it as fp32's faster sibling.
// Change      WMMA of 16 by 16 by 8 in place of multiply-adds; the stages are 07's.
// Prediction  Several times 07, and three decimal digits: an input's error is up to 2^-11 of it, where a sum in fp32
//             errs by some 2^-24 a product. Who can live with that should know; the op's tolerance does not.
// Right       gemm a=fp32[2,3] b=fp32[2,3]{1,2} out=fp32[2,2] --values ties --seed 1
// Wrong       gemm a=fp32[16,64] b=fp32[16,64]{1,16} out=fp32[16,16]
#include "kit/ptx/wmma.cuh"
#include "ladder/sgemm/staged.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr unsigned kAligned = 32;  // what WMMA takes; the dynamic array begins at any multiple of 16

// Eight warps, two by four, have 64 by 32 outputs each.
__global__ void __launch_bounds__(kStagedThreads) gemm(const float* a, const float* b, float* c, Sizes s) {
    auto* stages = reinterpret_cast<FloatStage*>(kit::align_shared<kAligned>(kit::dynamic_shared<char>()));
    const Corner at = corner_of(s);
    const int warp = static_cast<int>(threadIdx.x) / 32, down = warp / 4 * 64, across = warp % 4 * 32;
    kit::WmmaSums<16, 16, 8> sums[8];
    for (auto& sum : sums) kit::wmma_clear(sum);
    for_stages<kStagedStages>(
        stages, (s.k + kStagedSlice - 1) / kStagedSlice,
        [&](FloatStage& to, std::int64_t step) { bring_stage(to, a, b, s, at, step * kStagedSlice); },
        [&](const FloatStage& now) {
#pragma unroll
            for (int i = 0; i < 8 * kStagedSlice / 8; ++i) {
                const int k = i / 8 * 8, tile = i % 8;
                kit::WmmaA<kit::tf32, 16, 16, 8> fragment_a;
                kit::WmmaB<kit::tf32, 16, 16, 8> fragment_b;
                kit::wmma_load(fragment_a, &now.a[down + tile / 2 * 16][k], kStagedSlice + 4);
                kit::wmma_load(fragment_b, &now.b[k][across + tile % 2 * 16], kStagedTile + 8);
                kit::wmma_multiply(sums[tile], fragment_a, fragment_b);
            }
        });
    kit::cp_async_wait<0>();
    __syncthreads();
    float* patch = reinterpret_cast<float*>(stages) + warp * 256;
#pragma unroll
    for (int tile = 0; tile < 8; ++tile) {
        kit::wmma_store(patch, sums[tile], 16);
        __syncwarp();
        for (int i = static_cast<int>(threadIdx.x) % 32; i < 256; i += 32) {
            const std::int64_t row = at.row + down + tile / 2 * 16 + i / 16,
                               column = at.column + across + tile % 2 * 16 + i % 16;
            if (row < s.m && column < s.n) c[row * s.n + column] = patch[i];
        }
        __syncwarp();
    }
}

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_product(op, DType::fp32, DType::fp32); },
    +[](const Gemm& op, Context& context) {
        launch_product(kRung.name(), gemm, kStagedTile, kStagedTile, dim3(kStagedThreads), op, context,
                       kAligned + kStagedBytes);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
