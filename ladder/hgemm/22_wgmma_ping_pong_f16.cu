// A product of matrices by wgmma, two consumers that take turns (Hopper).
//
// Idea        A block stays and takes one tile after the other (a persistent kernel). Its two consumers have whole tiles
//             of their own, alternately: while one stores, the tensor cores work for the other. Nobody arranges that: the
//             ring holds few stages, so that a tile's slices come when those of the tile before have been used.
// Change      As many blocks as multiprocessors; tiles of 128 by 128, one a consumer; the ring's steps go on from tile to
//             tile.
// Prediction  Above 21 where a product has few steps, since its stores are hidden; below it where it has many: a tile of
//             128 by 128 brings a third more for a multiply-add than one of 128 by 256.
#include "kit/ptx/registers.cuh"
#include "ladder/hgemm/wgmma.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr int kThreads = 3 * 128, kStages = 6;
using PingPongRing = TmaRing<128, kStages>;

struct Tiles {
    std::int64_t all;
    int steps;  // of each
    __device__ __forceinline__ explicit Tiles(const Sizes& s)
        : all(s.across * ((s.m + kTmaRows - 1) / kTmaRows)),
          steps(static_cast<int>((s.k + kTmaSlice - 1) / kTmaSlice)) {}
};

__device__ __forceinline__ void produce(const PingPongRing& ring, const TmaMaps& maps, const Sizes& s) {
    const Tiles tiles(s);
    int step = 0;
    for (std::int64_t tile = blockIdx.x; tile < tiles.all; tile += gridDim.x) {
        for (int i = 0; i < tiles.steps; ++i, ++step) {
            if (step >= kStages) kit::mbarrier_wait(&ring.empty[step % kStages], (step / kStages - 1) & 1);
            ring.bring(maps, tma_corner<128>(s, tile), step, i * kTmaSlice);
        }
    }
}

// One tile, whose first step in the ring is `first`.
__device__ __forceinline__ void consume(float (&upper)[64], float (&lower)[64], const PingPongRing& ring,
                                        int first, int steps) {
    const auto leave = [&](int step) {
        if (lane_of_warp() == 0) kit::mbarrier_arrive(&ring.empty[step % kStages]);
    };
    for (int i = 0; i < steps; ++i) {
        TmaStage<128>& stage = ring.await(first + i);
        kit::wgmma_fence();
        multiply_stage<128>(upper, stage, 0, i == 0);
        multiply_stage<128>(lower, stage, 64, i == 0);
        kit::wgmma_commit();
        if (i > 0) {
            kit::wgmma_wait<1>();
            leave(first + i - 1);
        }
    }
    kit::wgmma_wait<0>();
    leave(first + steps - 1);
    kit::wgmma_hold(upper);
    kit::wgmma_hold(lower);
}

__global__ void __launch_bounds__(kThreads, 1)
    gemm(const __grid_constant__ TmaMaps maps, __half* c, const __grid_constant__ Sizes s) {
    const PingPongRing ring(4);
    const int group = static_cast<int>(threadIdx.x) / 128;
    if (group == 0) {
        kit::registers_release<40>();
        if (threadIdx.x == 0) produce(ring, maps, s);
        return;
    }
    kit::registers_acquire<232>();
    const Tiles tiles(s);
    int turn = 0;
    for (std::int64_t tile = blockIdx.x; tile < tiles.all; tile += gridDim.x, ++turn) {
        if (turn % 2 != group - 1) continue;
        float upper[64], lower[64];
        consume(upper, lower, ring, turn * tiles.steps, tiles.steps);
        const Corner at = tma_corner<128>(s, tile);
        store_sums<128>(upper, c, s, at.row, at.column);
        store_sums<128>(lower, c, s, at.row + 64, at.column);
    }
}

// Two tiles at least for each, where there are as many: a consumer without a tile has nothing to hide.
std::int64_t blocks_of(std::int64_t tiles, const DeviceInfo& device) {
    return std::min<std::int64_t>(device.sms, divide_up(tiles, 2));
}

const RegisterRung<Gemm> kRung{decline_tma, +[](const Gemm& op, Context& context) {
                                   launch_tma<128, kStages>(kRung.name(), gemm, kThreads, op, context,
                                                            blocks_of);
                               }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
