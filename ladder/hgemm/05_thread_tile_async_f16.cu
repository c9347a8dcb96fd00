// A product of matrices of halves, copied asynchronously.
//
// Idea        cp.async moves bytes and converts nothing: slices of 32 along k stay halves in shared memory, at half the
//             room, and are widened at each use. Copies of 16 bytes bring both operands.
// Change      cp.async in place of registers; conversions move from the store to the 16 loads of each k.
// Prediction  Fewer registers and no stores against 04, but 16 conversions for 64 multiply-adds: about level. Tensor
//             cores take halves as they are.
#include "ladder/half_tile.cuh"
#include "ladder/sgemm/thread_tile.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr int kDepth = 32;

struct Stage {
    HalfTile<kTile, kDepth, Banks::padded> a;
    HalfTile<kDepth, kTile, Banks::padded> b;
};

__device__ __forceinline__ void bring(Stage& to, const __half* a, const __half* b, const Sizes& s, Origin o,
                                      std::int64_t k) {
    bring_tile<kThreads>(to.a, a, s.m, s.k, s.k, o.row, k, s.whole);
    bring_tile<kThreads>(to.b, b, s.k, s.n, s.n, k, o.column, s.whole);
    kit::cp_async_commit();
}

__global__ void gemm(const __half* a, const __half* b, __half* c, Sizes s) {
    struct Buffers {
        Stage at[2];
    };
    auto& stages = kit::block_shared<Buffers>().at;
    const Origin origin = origin_of(s);
    const Share rows{static_cast<int>(threadIdx.x) / 8, 8}, columns{static_cast<int>(threadIdx.x) % 8, 8};
    float sums[kEach][kEach] = {};
    bring(stages[0], a, b, s, origin, 0);
    int now = 0;
    for (std::int64_t k = 0; k < s.k; k += kDepth, now ^= 1) {
        kit::cp_async_wait<0>();
        __syncthreads();
        if (k + kDepth < s.k) bring(stages[now ^ 1], a, b, s, origin, k + kDepth);
        for (int i = 0; i < kDepth; ++i) {
            float x[kEach], y[kEach];
#pragma unroll
            for (int j = 0; j < kEach; ++j) {
                x[j] = __half2float(stages[now].a.chunk(rows.first + 8 * j, 0)[i]);
                y[j] = __half2float(stages[now].b.chunk(i, j)[columns.first]);
            }
#pragma unroll
            for (int j = 0; j < kEach * kEach; ++j)
                sums[j / kEach][j % kEach] = fmaf(x[j / kEach], y[j % kEach], sums[j / kEach][j % kEach]);
        }
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
