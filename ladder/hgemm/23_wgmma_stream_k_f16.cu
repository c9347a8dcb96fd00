// A product of matrices by wgmma, whose blocks get equal shares of all steps of all tiles: stream-k (Hopper).
//
// Idea        The steps of all tiles are numbered through, tile after tile, and each of as many blocks as there are
//             multiprocessors takes an equal share, wherever it begins and ends. Nobody waits for the last, half empty
//             round of tiles. A tile that blocks share has its parts in a workspace; a second kernel adds them in the
//             order of k, not of arrival, and so the bits are the same every time.
// Change      From 21: blocks that stay, so that the next tile's slices come while this one is stored, and the kernel
//             that adds. 22's pairs are left out: two ideas at once are harder to read.
// Prediction  288 tiles on 132 multiprocessors are three rounds, where 2.18 have all the work; for k of 8192 some 164
//             us for 225. Adding costs up to 264 parts of 128 KiB, written and read, 15 to 20 us: 1.2 times as fast as
//             21. With 512 tiles (4096 by 4096) 3.88 rounds stand for 4, and with 128 tiles one for one: there the
//             parts cost more than the last round, and 21 is the faster.
#include "kit/ptx/pdl.cuh"
#include "kit/ptx/registers.cuh"
#include "ladder/hgemm/wgmma.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr int kThreads = 3 * 128, kStages = 4, kSums = 128, kConsumers = 256;

// Steps of one tile and of all. A block leaves at most two parts: of the tile that it begins within, and of the one that
// it ends within. Thread by thread, so that those of a warp are written together.
struct Parts {
    std::int64_t steps, all;
    float* sums;
    __device__ std::int64_t begin_of(unsigned block, unsigned blocks) const { return block * all / blocks; }
    __device__ float* of(unsigned block, bool begins_tile, unsigned thread) const {
        return sums + (2 * block + begins_tile) * std::int64_t{kSums * kConsumers} + thread;
    }
};

// A block's share, tile by tile: use(tile, the first of its slices here, the ring's step for it, how many).
template <class Use>
__device__ __forceinline__ void for_tiles(const Parts& parts, Use use) {
    const std::int64_t begin = parts.begin_of(blockIdx.x, gridDim.x),
                       end = parts.begin_of(blockIdx.x + 1, gridDim.x);
    for (std::int64_t i = begin, count = 0; i < end; i += count) {
        count = min(parts.steps - i % parts.steps, end - i);
        use(i / parts.steps, static_cast<int>(i % parts.steps), static_cast<int>(i - begin),
            static_cast<int>(count));
    }
}

__global__ void __launch_bounds__(kThreads, 1) gemm(const __grid_constant__ TmaMaps maps, __half* c,
                                                    const __grid_constant__ Sizes s, const Parts parts) {
    const TmaRing<256, kStages> ring(2 * 4);
    kit::dependents_launch();
    const int group = static_cast<int>(threadIdx.x) / 128;
    if (group == 0) {
        kit::registers_release<40>();
        const auto produce = [&](std::int64_t tile, int slice, int step, int count) {
            const Corner at = tma_corner<256>(s, tile);
            for (int i = 0; i < count; ++i) {
                ring.await_empty(step + i);
                ring.bring(maps, at, step + i, slice + i);
            }
        };
        if (threadIdx.x == 0) for_tiles(parts, produce);
    } else {
        kit::registers_acquire<232>();
        const auto leave = [&](int step) {
            if (lane_of_warp() == 0) kit::mbarrier_arrive(&ring.empty[step % kStages]);
        };
        for_tiles(parts, [&](std::int64_t tile, int slice, int step, int count) {
            float sums[kSums];
            multiply_stages(sums, ring, 64 * (group - 1), step, count, leave);
            if (count == parts.steps) {
                const Corner at = tma_corner<256>(s, tile);
                store_sums<256>(sums, c, s, at.row + 64 * (group - 1), at.column);
            } else {
                float* to = parts.of(blockIdx.x, slice == 0, threadIdx.x - 128);
#pragma unroll
                for (int i = 0; i < kSums; ++i) to[i * kConsumers] = sums[i];
            }
        });
    }
}

// A block for the end of each share but the last: adds the parts of the tile there, if that share has its first step.
__global__ void __launch_bounds__(kConsumers) add_parts(__half* c, const Sizes s, const Parts parts) {
    kit::dependency_wait();
    const unsigned first = blockIdx.x, blocks = gridDim.x + 1;
    const std::int64_t tile = parts.begin_of(first + 1, blocks) / parts.steps, begin = tile * parts.steps;
    if (parts.begin_of(first + 1, blocks) == begin || parts.begin_of(first, blocks) > begin) return;
    float sums[kSums] = {};
    for (unsigned block = first; parts.begin_of(block, blocks) < begin + parts.steps; ++block) {
        const float* from = parts.of(block, block == first, threadIdx.x);
#pragma unroll
        for (int i = 0; i < kSums; ++i) sums[i] += from[i * kConsumers];
    }
    const Corner at = tma_corner<256>(s, tile);
    store_sums<256>(sums, c, s, at.row + threadIdx.x / 128 * 64, at.column);
}

void launch(const char* name, const Gemm& op, Context& context) {
    const TmaProduct product(op, 256);
    const Sizes& s = product.sizes;
    const std::int64_t steps = divide_up(s.k, kTmaSlice), all = steps * s.across * divide_up(s.m, kTmaRows);
    const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(context.info().sms, all));
    const std::size_t part = kSums * kConsumers * sizeof(float);
    const Parts parts{steps, all, static_cast<float*>(context.scratch(2 * blocks * part))};
    kit::launch(name, gemm,
                {.grid = blocks, .block = kThreads, .dynamic_shared = TmaRing<256, kStages>::kBytes},
                context.stream(), product.maps, op.out.as<__half>(), s, parts);
    if (blocks == 1) return;
    kit::launch(name, add_parts, {.grid = blocks - 1, .block = kConsumers, .dependent = true},
                context.stream(), op.out.as<__half>(), s, parts);
}

const RegisterRung<Gemm> kRung{decline_tma,
                               +[](const Gemm& op, Context& context) { launch(kRung.name(), op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
