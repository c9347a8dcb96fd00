// A product of matrices, copied asynchronously.
//
// Idea        cp.async goes from global to shared memory past the registers: the next slice is under way with no
//             register waiting for it. A copy of 4 bytes may go anywhere, so A is transposed on the way, and beyond
//             the edges it writes zeros.
// Change      05 with cp.async in place of a load and a store.
// Prediction  16 registers a thread less than 05, for more warps at once. A copy of 16 bytes would be better still,
//             where the rows of the operands allow it.
#include "kit/ptx/cp_async.cuh"
#include "ladder/sgemm/thread_tile.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

__device__ __forceinline__ void copy(Slices<4>& slices, const float* a, const float* b, const Sizes& s,
                                     Origin o, std::int64_t k) {
    const int t = threadIdx.x;
#pragma unroll
    for (int i = 0; i < kSlice; ++i) {
        const std::int64_t row = o.row + i * 8 + t / 8, ka = k + t % 8, kb = k + i, column = o.column + t;
        const bool has_a = row < s.m && ka < s.k, has_b = kb < s.k && column < s.n;
        // Where there is nothing to copy the address is not used, but must be one.
        kit::cp_async<4>(&slices.a[t % 8][i * 8 + t / 8], has_a ? a + row * s.k + ka : a, has_a);
        kit::cp_async<4>(&slices.b[i][t], has_b ? b + kb * s.n + column : b, has_b);
    }
    kit::cp_async_commit();
}

__global__ void gemm(const float* a, const float* b, float* c, Sizes s) {
    struct Buffers {
        Slices<4> at[2];
    };
    auto& slices = kit::block_shared<Buffers>().at;
    const Origin origin = origin_of(s);
    const Share rows{static_cast<int>(threadIdx.x) / 8, 8}, columns{static_cast<int>(threadIdx.x) % 8, 8};
    float sums[kEach][kEach] = {};
    copy(slices[0], a, b, s, origin, 0);
    int now = 0;
    for (std::int64_t k = 0; k < s.k; k += kSlice, now ^= 1) {
        kit::cp_async_wait<0>();
        __syncthreads();  // every thread's copies are here, and nobody reads the other buffer any more
        if (k + kSlice < s.k) copy(slices[now ^ 1], a, b, s, origin, k + kSlice);
        multiply(sums, slices[now], rows, columns);
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
