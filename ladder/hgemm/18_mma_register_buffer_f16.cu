// A product of matrices on tensor cores, fragments loaded ahead, whole rows of chunks stored.
//
// Idea        The fragments of the second half of a slice are loaded before the first half is multiplied. In the end the
//             four lanes of a row exchange their pairs by shuffles, so that each has eight neighbours: one store of 16
//             bytes in place of four of 4.
// Change      Two sets of fragments, every second row of mma from right to left so that an operand stays; the store.
// Prediction  A little over 16: ldmatrix runs beside the mma, and the output leaves in a quarter of the stores.
#include "ladder/hgemm/store_rows.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using Slices = Stage<Banks::swizzled>;

__device__ __forceinline__ void multiply_back_and_forth(float (&sums)[4][4][4], const Fragments& from) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        const int down = i / 4, across = down % 2 == 0 ? i % 4 : 3 - i % 4;
        kit::mma_m16n8k16<__half>(sums[down][across], from.a[down], from.b[across]);
    }
}

__global__ void __launch_bounds__(kStagedThreads) gemm(const __half* a, const __half* b, __half* c, Sizes s) {
    const Corner at = by_groups(s);
    const Warp warp = staged_warp();
    float sums[4][4][4] = {};
    for_stages<4>(
        kit::dynamic_shared<Slices>(), (s.k + kStagedSlice - 1) / kStagedSlice,
        [&](Slices& to, std::int64_t step) { bring_slices(to, a, b, s, at, step * kStagedSlice); },
        [&](Slices& now) {
            Fragments halves[2];
            load(halves[0], now, warp, 0);
            load(halves[1], now, warp, 16);
            multiply_back_and_forth(sums, halves[0]);
            multiply_back_and_forth(sums, halves[1]);
        });
    store_rows(sums, c, s, at, warp);
}

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_product(op, DType::fp16, DType::fp16); },
    +[](const Gemm& op, Context& context) {
        launch_product(kRung.name(), gemm, kStagedTile, kStagedTile, dim3(kStagedThreads), op, context,
                       4 * sizeof(Slices));
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
