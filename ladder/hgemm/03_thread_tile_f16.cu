// A product of matrices of halves, 8 by 8 outputs a thread, eight halves a load.
//
// Idea        As sgemm's third rung: 16 loads from shared memory give 64 multiply-adds. Of halves a thread brings its
//             share of a slice as one vector of 16 bytes an operand, and widens it once, on its way into shared memory.
// Change      Larger tiles, vectors, and the dealing out of sgemm/04 against bank conflicts.
// Prediction  Many times 02, and below sgemm/04, which does not widen: CUDA cores gain nothing by halves but traffic.
#include "ladder/hgemm/halves.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void gemm(const __half* a, const __half* b, __half* c, Sizes s) {
    Slices<4>& slices = kit::block_shared<Slices<4>>();
    const Origin origin = origin_of(s);
    const Share rows{static_cast<int>(threadIdx.x) / 8, 8}, columns{static_cast<int>(threadIdx.x) % 8, 8};
    float sums[kEach][kEach] = {};
    for (std::int64_t k = 0; k < s.k; k += kSlice) {
        keep(slices, fetch(a, b, s, origin, k));
        __syncthreads();
        multiply(sums, slices, rows, columns);
        __syncthreads();
    }
    store(sums, c, s, origin, rows, columns);
}

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_product(op, DType::fp16, DType::fp16); },
    +[](const Gemm& op, Context& context) {
        launch_product(kRung.name(), gemm, kTile, kTile, dim3(kThreads), op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
