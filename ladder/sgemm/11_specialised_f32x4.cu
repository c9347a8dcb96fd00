// A product of matrices whose multiplying warps do nothing else, by blocks with equal shares of the work (SM 9.0).
//
// Idea        Who multiplies shall issue multiply-adds and what loads their operands. Four warps of their own, one for each
//             scheduler, copy; barriers count in both directions, and nobody waits for all. Whole rounds of tiles go tile by tile
//             to blocks that stay; the slices of the tiles left are shared out evenly, and a second kernel adds their parts in
//             the order of k, so that the bits are the same every time.
// Change      From 10: roles, and registers moved between them; a fence that keeps the multiply-adds in the order of the walk,
//             yet not so many that the loads stand in a row; stream-k for the last round, as in hgemm/23.
// Prediction  10's warps all issue their copies at once, and none multiplies then, an eighth of its time; the copiers'
//             instructions take some 3 % of it back. By the machine code 1.07 cycles a multiply-add for the banks and 0.07 for
//             loads and loop, where 10 has 1.09 and 0.06. 1001 by 999 outputs are 32 tiles for 132 multiprocessors: in equal
//             shares a third of 10's time, parts included.
#include "kit/ptx/cp_async.cuh"
#include "kit/ptx/mbarrier.cuh"
#include "kit/ptx/pdl.cuh"
#include "kit/ptx/registers.cuh"
#include "ladder/row.cuh"
#include "ladder/sgemm/product.h"

namespace weft::inline WEFT_TARGET {
namespace {

using Four = Pack<float, 4>;

constexpr int kHigh = 128, kWide = 256, kDeep = 32, kStages = 3, kCopiers = 128, kWorkers = 256;
constexpr int kVectors = 32, kParked = 4;  // of a thread's sums, and those that it parks at a time

// The row behind the last is loaded while that one is multiplied, and not used.
struct Stage {
    alignas(16) float a[kDeep + 1][kHigh + 4];
    alignas(16) float b[kDeep + 1][kWide];
};

struct Shared {
    Stage stages[kStages];
    Four parked[kParked][kWorkers];
    kit::Mbarrier full[kStages], empty[kStages];  // a slice is there; all workers have left it
};

// The next stage, and how often one has been around the ring.
struct Place {
    int stage = 0;
    unsigned around = 0;
    __device__ __forceinline__ void step() {
        if (++stage == kStages) stage = 0, ++around;
    }
};

// Who does what. `steps`: slices of a tile. Tiles below `whole` go to one block each; the slices of the others, `rest` in
// all, are numbered through and shared out. A block leaves two parts at most: of the tile that it begins within, and of the
// one that it ends within.
struct Work {
    std::int64_t steps, whole, rest;
    Four* parts;

    __device__ __forceinline__ std::int64_t begin_of(std::int64_t block, std::int64_t blocks) const {
        return block * rest / blocks;
    }
    __device__ __forceinline__ Four* part(std::int64_t block, bool begins_tile, int thread) const {
        return parts + (2 * block + begins_tile) * (kVectors * kWorkers) + thread;
    }
    // use(tile, the first of its slices here, how many)
    template <class Use>
    __device__ __forceinline__ void for_shares(Use use) const {
        const std::int64_t end = begin_of(blockIdx.x + 1, gridDim.x);
        std::int64_t tile = blockIdx.x, i = begin_of(blockIdx.x, gridDim.x);
        while (tile < whole || i < end) {
            const bool alone = tile < whole;
            const std::int64_t slice = alone ? 0 : i % steps,
                               count = alone ? steps : min(steps - slice, end - i);
            use(alone ? tile : whole + i / steps, slice, count);
            (alone ? tile : i) += alone ? gridDim.x : count;
        }
    }
};

// Copies of a tile's slices, of B in vectors of kVector. Eight lanes have neighbours in k, for whole sectors of memory, and
// four have rows: then the 32 places in the transposed slice lie in 32 banks. Beyond an edge of the output any number will do,
// so that the last row or column is read again; beyond k there are zeros.
template <int kVector>
struct Copier {
    static constexpr int kLanes = kWide / kVector, kTimes = (kLanes + kCopiers - 1) / kCopiers;
    static constexpr int kRows = kCopiers * kTimes / kLanes;
    const float *a, *b[kTimes];
    std::int64_t across, down, left;  // rows of B, 16 rows of A; of k
    int k, row_a, more, row_b, to_b;  // `more`: how often there are 16 rows of A more

    __device__ __forceinline__ Copier(const float* a_, const float* b_, const Sizes& s, std::int64_t tile,
                                      std::int64_t slice) {
        const int t = static_cast<int>(threadIdx.x);
        const std::int64_t row = tile / s.across * kHigh, column = tile % s.across * kWide;
        k = t % 8, row_a = t / 8, row_b = t / kLanes, to_b = t % kLanes * kVector;
        const int last = static_cast<int>(min(s.m - row, std::int64_t{kHigh})) - 1;
        more = max(last - row_a, 0) / 16;
        left = s.k - slice * kDeep, across = kRows * s.n, down = 16 * s.k;
        a = a_ + (row + min(row_a, last)) * s.k + slice * kDeep + k;
#pragma unroll
        for (int i = 0; i < kTimes; ++i)
            b[i] = b_ + (slice * kDeep + row_b) * s.n + min(column + to_b + i * kCopiers, s.n - kVector);
    }
    __device__ __forceinline__ void bring(Stage& to) {
        const int rest = static_cast<int>(min(left, std::int64_t{kDeep}));
        const float* from = a;
#pragma unroll
        for (int i = 0; i < kHigh / 16; ++i) {
#pragma unroll
            for (int j = 0; j < kDeep; j += 8)
                kit::cp_async<4>(&to.a[k + j][row_a + 16 * i], from + j, k + j < rest);
            if (i < more) from += down;
        }
#pragma unroll
        for (int i = 0; i < kDeep; i += kRows) {
#pragma unroll
            for (int j = 0; j < kTimes; ++j) {
                const bool there = row_b + i < rest;
                float* place = &to.b[row_b + i][to_b + j * kCopiers];
                if constexpr (kVector == 4) {
                    kit::cp_async_16(place, b[j], there);
                } else {
                    kit::cp_async<4>(place, b[j], there);
                }
                b[j] += across;
            }
        }
        a += kDeep, left -= kDeep;
    }
};

template <int kVector>
__device__ __forceinline__ void copy(const float* a, const float* b, const Sizes& s, const Work& work,
                                     Shared& shared) {
    Place at;
    work.for_shares([&](std::int64_t tile, std::int64_t slice, std::int64_t count) {
        Copier<kVector> copier(a, b, s, tile, slice);
        for (; count > 0; --count) {
            if (at.around > 0) kit::mbarrier_wait(&shared.empty[at.stage], (at.around - 1) & 1);
            copier.bring(shared.stages[at.stage]);
            kit::mbarrier_arrive_copied(&shared.full[at.stage]);
            at.step();
        }
    });
}

// In the machine code, what stands before it and what stands behind it stay apart: an instruction that the assembler knows
// nothing of, and that never runs.
__device__ __forceinline__ void hold_order([[maybe_unused]] bool never) {
#if defined(__CUDA_ARCH__)
    asm volatile("{\n.reg .pred runs;\nsetp.ne.u32 runs, %0, 0;\n@runs pmevent 1;\n}" ::"r"(
        static_cast<unsigned>(never)));
#endif
}

// Eight warps, two by four, have 64 by 64 outputs each; of these a lane has four of each 16 rows and four of each 32 columns.
struct Worker {
    int thread, down, across;
    float sums[16][8];

    __device__ __forceinline__ explicit Worker(int thread_) : thread(thread_) {
        const int warp = thread / 32, lane = thread % 32;
        down = warp / 4 * 64 + lane % 4 * 4, across = warp % 4 * 64 + lane / 4 * 4;
    }
    // The operands of a step of k are loaded while the one before is multiplied.
    __device__ __forceinline__ void multiply_stage(const Stage& stage, bool never) {
        Four a[2][4], b[2][2];
        const float *from_a = &stage.a[0][down], *from_b = &stage.b[0][across];
        const auto load = [&](int to, int k) {
#pragma unroll
            for (int i = 0; i < 2; ++i)
                b[to][i] = *reinterpret_cast<const Four*>(from_b + k * kWide + 32 * i);
#pragma unroll
            for (int i = 0; i < 4; ++i)
                a[to][i] = *reinterpret_cast<const Four*>(from_a + k * (kHigh + 4) + 16 * i);
        };
        load(0, 0);
#pragma unroll 1
        for (int k = 0; k < kDeep; k += 2) {
            load(1, 1);
            hold_order(never);
            add_products(a[0], b[0]);
            load(0, 2);
            add_products(a[1], b[1]);
            from_a += 2 * (kHigh + 4), from_b += 2 * kWide;
        }
    }
    __device__ __forceinline__ void add_products(const Four (&a)[4], const Four (&b)[2]) {
#pragma unroll
        for (int i = 0; i < 128; ++i) {
            const int y = i / 8, x = y % 2 == 0 ? i % 8 : 7 - i % 8;
            sums[y][x] = fmaf(a[y / 4].at[y % 4], b[x / 4].at[x % 4], sums[y][x]);
        }
    }
    __device__ __forceinline__ void multiply(Shared& shared, Place& at, std::int64_t count, bool never) {
        for (; count > 0; --count) {
            kit::mbarrier_wait(&shared.full[at.stage], at.around & 1);
            multiply_stage(shared.stages[at.stage], never);
            __syncwarp();
            if (thread % 32 == 0) kit::mbarrier_arrive(&shared.empty[at.stage]);
            at.step();
        }
    }
    // Turned by one, so that each sum lies in the other bank than its number of B (10).
    __device__ __forceinline__ Four turned(int i) const {
        const float* four = &sums[i / 2][i % 2 * 4];
        return {four[1], four[2], four[3], four[0]};
    }
    __device__ __forceinline__ void store(float* c, const Sizes& s, std::int64_t tile, int i,
                                          const Four& turned) const {
        const std::int64_t row = tile / s.across * kHigh + down + i / 2 % 4 + i / 8 * 16;
        const std::int64_t column = tile % s.across * kWide + across + i % 2 * 32;
        if (row >= s.m) return;
        float* to = c + row * s.n + column;
        if (s.whole && column < s.n)
            *reinterpret_cast<Four*>(to) = {turned.at[3], turned.at[0], turned.at[1], turned.at[2]};
        for (int j = 0; j < 4 && !s.whole; ++j) {
            if (column + j < s.n) to[j] = turned.at[(j + 3) % 4];
        }
    }
    // Through shared memory, for the compiler would else turn them in registers; each thread reads what it wrote.
    __device__ __forceinline__ void store_tile(float* c, const Sizes& s, std::int64_t tile,
                                               Four (&parked)[kParked][kWorkers]) const {
#pragma unroll
        for (int i = 0; i < kVectors; i += kParked) {
#pragma unroll
            for (int j = 0; j < kParked; ++j) parked[j][thread] = turned(i + j);
            __syncwarp();
#pragma unroll
            for (int j = 0; j < kParked; ++j) store(c, s, tile, i + j, parked[j][thread]);
            __syncwarp();
        }
    }
};

__device__ __forceinline__ void work_on(float* c, const Sizes& s, const Work& work, Shared& shared) {
    Worker worker(static_cast<int>(threadIdx.x) - kCopiers);
    Place at;
    work.for_shares([&](std::int64_t tile, std::int64_t slice, std::int64_t count) {
#pragma unroll
        for (int i = 0; i < 128; ++i) worker.sums[i / 8][i % 8] = 0;
        worker.multiply(shared, at, count, s.m < 0);
        if (count == work.steps) return worker.store_tile(c, s, tile, shared.parked);
        Four* to = work.part(blockIdx.x, slice == 0, worker.thread);
#pragma unroll
        for (int i = 0; i < kVectors; ++i) to[i * kWorkers] = worker.turned(i);
    });
}

__global__ void __launch_bounds__(kCopiers + kWorkers, 1)
    gemm(const float* a, const float* b, float* c, const __grid_constant__ Sizes s,
         const __grid_constant__ Work work) {
    Shared& shared = *kit::dynamic_shared<Shared>();
    if (threadIdx.x == 0) {
        for (int i = 0; i < kStages; ++i) {
            kit::mbarrier_init(&shared.full[i], kCopiers);
            kit::mbarrier_init(&shared.empty[i], kWorkers / 32);
        }
        kit::fence_mbarrier_init();
    }
    __syncthreads();
    kit::dependents_launch();
    if (threadIdx.x < kCopiers) {
        kit::registers_release<40>();
        s.whole ? copy<4>(a, b, s, work, shared) : copy<1>(a, b, s, work, shared);
    } else {
        kit::registers_acquire<232>();
        work_on(c, s, work, shared);
    }
}

// Eight blocks a shared tile add a few vectors of each thread's.
__global__ void __launch_bounds__(kWorkers)
    add_parts(float* c, const __grid_constant__ Sizes s, const __grid_constant__ Work work, int blocks) {
    kit::dependency_wait();
    const int first = static_cast<int>(blockIdx.x) % 8 * 4;
    const std::int64_t tile = blockIdx.x / 8, begin = tile * work.steps, end = begin + work.steps;
    std::int64_t block = begin * blocks / work.rest;
    while (work.begin_of(block + 1, blocks) <= begin) ++block;
    if (work.begin_of(block + 1, blocks) >= end) return;  // it had the whole tile
    const Worker worker(static_cast<int>(threadIdx.x));
    Four sums[4] = {};
    for (; work.begin_of(block, blocks) < end; ++block) {
        const Four* from = work.part(block, work.begin_of(block, blocks) <= begin, worker.thread);
#pragma unroll
        for (int i = 0; i < 16; ++i) sums[i / 4].at[i % 4] += from[(first + i / 4) * kWorkers].at[i % 4];
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) worker.store(c, s, work.whole + tile, first + i, sums[i]);
}

void launch(const char* name, const Gemm& op, Context& context) {
    const Sizes s = product_sizes<float>(op, kWide);
    const std::int64_t tiles = s.across * divide_up(s.m, kHigh), most = context.info().sms;
    Work work{divide_up(s.k, kDeep), tiles, 0, nullptr};
    // Writing parts and adding them takes as long as some eight slices.
    const std::int64_t last = tiles % most;
    if (last > 0 && work.steps * (most - last) > 8 * most) work.whole -= last, work.rest = last * work.steps;
    const std::int64_t blocks = std::min(most, std::max(work.whole, work.rest));
    if (work.rest > 0)
        work.parts = static_cast<Four*>(
            context.scratch(static_cast<std::size_t>(2 * blocks) * kVectors * kWorkers * sizeof(Four)));
    kit::launch(name, gemm,
                {.grid = dim3(static_cast<unsigned>(blocks)),
                 .block = dim3(kCopiers + kWorkers),
                 .dynamic_shared = sizeof(Shared)},
                context.stream(), op.a.as<const float>(), op.b.as<const float>(), op.out.as<float>(), s,
                work);
    if (work.rest == 0) return;
    kit::launch(name, add_parts,
                {.grid = dim3(static_cast<unsigned>(8 * last)), .block = dim3(kWorkers), .dependent = true},
                context.stream(), op.out.as<float>(), s, work, static_cast<int>(blocks));
}

const RegisterRung<Gemm> kRung{+[](const Gemm& op, const DeviceInfo& device) {
                                   if (device.arch < 90 || device.arch >= 100)
                                       return "moves registers between warps as SM 9.0 does";
                                   return decline_product(op, DType::fp32, DType::fp32);
                               },
                               +[](const Gemm& op, Context& context) { launch(kRung.name(), op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
