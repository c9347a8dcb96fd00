// A product of matrices, with the next slice on its way.
//
// Idea        The loads of the next slice are issued before this one is multiplied, and land in registers meanwhile;
//             they go into a second pair of slices, so that one barrier a slice is enough: nobody writes what somebody
//             may still read.
// Change      Two buffers in turn, and the order fetch, multiply, keep.
// Prediction  The latency of global memory hides behind 512 multiply-adds a thread and slice: what 04 lost at each
//             barrier.
#include "ladder/sgemm/thread_tile.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void gemm(const float* a, const float* b, float* c, Sizes s) {
    struct Buffers {
        Slices<4> at[2];
    };
    auto& slices = kit::block_shared<Buffers>().at;
    const Origin origin = origin_of(s);
    const Share rows{static_cast<int>(threadIdx.x) / 8, 8}, columns{static_cast<int>(threadIdx.x) % 8, 8};
    float sums[kEach][kEach] = {};
    Fetched fetched;
    fetch(fetched, a, b, s, origin, 0);
    keep(slices[0], fetched);
    __syncthreads();
    int now = 0;
    for (std::int64_t k = 0; k < s.k; k += kSlice, now ^= 1) {
        const bool more = k + kSlice < s.k;
        if (more) fetch(fetched, a, b, s, origin, k + kSlice);
        multiply(sums, slices[now], rows, columns);
        if (more) keep(slices[now ^ 1], fetched);
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
