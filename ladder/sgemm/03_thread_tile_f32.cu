// A product of matrices, 8 by 8 outputs a thread.
//
// Idea        Eight elements of A and eight of B in registers give 64 products: four fused multiply-adds for each load
//             from shared memory in place of a half. This is what makes a product bound by arithmetic at all.
// Change      A thread's outputs are an 8 by 8 piece of a 64 by 64 tile (thread_tile.cuh).
// Prediction  Several times 02. Neighbouring threads read shared memory 8 elements apart: the same bank for every
//             fourth, so loads of B are served in four turns.
#include "ladder/sgemm/thread_tile.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void gemm(const float* a, const float* b, float* c, Sizes s) {
    Slices<0>& slices = kit::block_shared<Slices<0>>();
    const Origin origin = origin_of(s);
    const Share rows{static_cast<int>(threadIdx.x) / 8 * 8, 1},
        columns{static_cast<int>(threadIdx.x) % 8 * 8, 1};
    float sums[kEach][kEach] = {};
    for (std::int64_t k = 0; k < s.k; k += kSlice) {
        Fetched fetched;
        fetch(fetched, a, b, s, origin, k);
        keep(slices, fetched);
        __syncthreads();
        multiply(sums, slices, rows, columns);
        __syncthreads();
    }
    store(sums, c, s, origin, rows, columns);
}

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_product(op, DType::fp32, DType::fp32); },
    +[](const Gemm& op, Context& context) {
        launch_product(kRung.name(), gemm, kTile, kTile, dim3(kThreads), op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
