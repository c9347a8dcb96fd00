// A product of matrices of fp8 by wgmma, whose sums the threads add (Hopper).
//
// Idea        With a byte an element, slices of 128 along k are as wide as a swizzle, and wgmma multiplies twice as many
//             at a time. But the tensor cores add fp8's products in an accumulator that keeps 13 fraction bits. They are
//             given those of one slice alone, and each thread adds what comes to its own sums in fp32: promotion. The
//             two scales come last.
// Change      From 21: bytes, with both operands along k, as wgmma wants fp8; B is [n, k]. A half of the columns at a
//             time: registers hold 128 sums and 64 products. Each half is waited for; the other consumer's run.
// Prediction  Twice 21's rate is the limit. A slice takes 1024 clocks of the tensor cores for both consumers, and the
//             adding 256 issue slots of each scheduler, which the other consumer's products fill if the two drift
//             apart: 1.8 times as fast as 21. Where both wait for the same stage at the same time, 1.6 times.
#include "kit/convert.cuh"
#include "kit/ptx/registers.cuh"
#include "ladder/hgemm/wgmma.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr int kThreads = 3 * 128, kStages = 4, kWide = 256, kSlice = 128;

struct ByteStage {
    kit::e4m3 a[kTmaRows * kSlice], b[kWide * kSlice];
};
using Ring = TmaRing<kWide, kStages, ByteStage>;

__device__ __forceinline__ void produce(const Ring& ring, const TmaMaps& maps, Corner at, int steps) {
    const int row = static_cast<int>(at.row), column = static_cast<int>(at.column);
    for (int step = 0; step < steps; ++step) {
        ByteStage& to = ring.stages[step % kStages];
        kit::Mbarrier* barrier = &ring.full[step % kStages];
        ring.await_empty(step);
        kit::mbarrier_arrive_expect(barrier, sizeof(to));
        kit::tma_load<2>(to.a, maps.a, barrier, {step * kSlice, row});
        kit::tma_load<2>(to.b, maps.b, barrier, {step * kSlice, column});
    }
}

// A warpgroup's 64 rows from `row` on.
__device__ __forceinline__ void consume(float (&sums)[kWide / 2], const Ring& ring, int row, int steps) {
    for (int step = 0; step < steps; ++step) {
        ByteStage& stage = ring.await(step);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const auto a = kit::matrix_descriptor(stage.a + row * kSlice, kit::Swizzle::bytes128, 8 * kSlice);
            const auto b = kit::matrix_descriptor(stage.b + half * kWide / 2 * kSlice, kit::Swizzle::bytes128,
                                                  8 * kSlice);
            float products[kWide / 4];
            kit::wgmma_hold(products);
            kit::wgmma_fence();
#pragma unroll
            for (int i = 0; i < kSlice / 32; ++i)
                kit::wgmma<kit::e4m3, kit::e4m3, kWide / 2>(products, a.moved(32 * i), b.moved(32 * i),
                                                            i > 0);
            kit::wgmma_commit();
            kit::wgmma_wait<0>();
            kit::wgmma_hold(products);
#pragma unroll
            for (int i = 0; i < kWide / 4; ++i) sums[half * kWide / 4 + i] += products[i];
        }
        if (lane_of_warp() == 0) kit::mbarrier_arrive(&ring.empty[step % kStages]);
    }
}

__global__ void __launch_bounds__(kThreads, 1)
    gemm(const __grid_constant__ TmaMaps maps, __half* c, const __grid_constant__ Sizes s,
         const float* a_scale, const float* b_scale) {
    const Ring ring(2 * 4);
    const Corner at = tma_corner<kWide>(s, blockIdx.x);
    const int steps = static_cast<int>((s.k + kSlice - 1) / kSlice),
              group = static_cast<int>(threadIdx.x) / 128;
    if (group == 0) {
        kit::registers_release<40>();
        if (threadIdx.x == 0) produce(ring, maps, at, steps);
    } else {
        kit::registers_acquire<232>();
        float sums[kWide / 2] = {};
        consume(sums, ring, 64 * (group - 1), steps);
        const float scale = *a_scale * *b_scale;
#pragma unroll
        for (float& sum : sums) sum *= scale;
        store_sums<kWide>(sums, c, s, at.row + 64 * (group - 1), at.column);
    }
}

const char* decline(const Gemm& op, const DeviceInfo& device) {
    if (!is_dense(op.a, DType::fp8_e4m3) || !is_dense(op.b, DType::fp8_e4m3) ||
        !is_dense(op.out, DType::fp16))
        return "takes dense matrices of fp8, and gives fp16";
    if (!op.a_scale || !op.b_scale) return "takes a scale of each operand";
    if (!has_only(op, {"a", "b", "a_scale", "b_scale", "out"}) || op.activation != Gemm::Activation::none)
        return "multiplies, and nothing else";
    const std::int64_t k = op.a.dim(-1), n = op.b.dim(0);
    if (k == 0 || k % 16 != 0 || n % 8 != 0) return "the copy engine takes rows of whole 16 bytes";
    return decline_tma_device(op, device);
}

const RegisterRung<Gemm> kRung{
    decline, +[](const Gemm& op, Context& context) {
        const std::int64_t k = op.a.dim(-1), n = op.b.dim(0), m = op.out.numel() / n;
        const Sizes sizes{m, n, k, divide_up(n, kWide), true};
        const TmaMaps maps{tma_map(op.a.data, m, k, kTmaRows, 1), tma_map(op.b.data, n, k, kWide, 1)};
        kit::launch(kRung.name(), gemm,
                    {.grid = dim3(static_cast<unsigned>(sizes.across * divide_up(m, kTmaRows))),
                     .block = kThreads,
                     .dynamic_shared = Ring::kBytes},
                    context.stream(), maps, op.out.as<__half>(), sizes, op.a_scale.as<const float>(),
                    op.b_scale.as<const float>());
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
