// A product of matrices of halves, with the next slice on its way.
//
// Idea        The two vectors of the next slice wait in registers, eight in all, while this one is multiplied; widened
//             they go into a second pair of slices.
// Change      Two buffers in turn, one barrier a slice.
// Prediction  As sgemm/05 over sgemm/04: the latency of global memory hides behind 512 multiply-adds.
#include "ladder/hgemm/halves.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void gemm(const __half* a, const __half* b, __half* c, Sizes s) {
    struct Buffers {
        Slices<4> at[2];
    };
    auto& slices = kit::block_shared<Buffers>().at;
    const Origin origin = origin_of(s);
    const Share rows{static_cast<int>(threadIdx.x) / 8, 8}, columns{static_cast<int>(threadIdx.x) % 8, 8};
    float sums[kEach][kEach] = {};
    FetchedHalves fetched = fetch(a, b, s, origin, 0);
    keep(slices[0], fetched);
    __syncthreads();
    int now = 0;
    for (std::int64_t k = 0; k < s.k; k += kSlice, now ^= 1) {
        const bool more = k + kSlice < s.k;
        if (more) fetched = fetch(a, b, s, origin, k + kSlice);
        multiply(sums, slices[now], rows, columns);
        if (more) keep(slices[now ^ 1], fetched);
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
