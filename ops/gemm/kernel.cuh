// gemm on the tensor cores of every architecture since SM 8.0: mma.sync fed by a ring of cp.async stages.
#pragma once

#include "kit/ptx/mma.cuh"
#include "ops/gemm/mma_load.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// Of what products are added in: floats, or whole numbers.
template <class Shape, class Sum = float>
using Sums = Sum[Shape::kTilesM][Shape::kTilesN][4];

template <class T>
__device__ __forceinline__ void multiply(kit::Accumulator<T> (&c)[4], const uint32_t (&a)[4],
                                         const uint32_t (&b)[2]) {
    if constexpr (sizeof(T) == 2) {
        kit::mma_m16n8k16<T>(c, a, b);
    } else {
        kit::mma_m16n8k32<T, T>(c, a, b);
    }
}

// The warp's part of one stage. fp8 is not unrolled: Hopper widens its fragments to fp16 in registers, and four steps at once
// would spill.
template <class T, class Shape, bool kTransposed, int kUnrolled = sizeof(T) == 2 ? 4 : 1>
__device__ __forceinline__ void multiply_stage(Sums<Shape, kit::Accumulator<T>>& sums, const char* stage) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int row = warp / Shape::kWarpColumns * Shape::kWarpM,
              column = warp % Shape::kWarpColumns * Shape::kWarpN;
    const char* b_panel = stage + Shape::kABytes;
#pragma unroll(kUnrolled)
    for (int chunk = 0; chunk < kit::kPanelChunks; chunk += 2) {
        uint32_t a[Shape::kTilesM][4], b[Shape::kTilesN][2];
#pragma unroll
        for (int i = 0; i < Shape::kTilesM; ++i) kit::load_a_fragment(a[i], stage, row + i * 16, chunk);
#pragma unroll
        for (int j = 0; j < Shape::kTilesN; j += 2) {
            const int at = column + j * 8;
            if constexpr (kTransposed) {  // a panel holds 64 columns; a step of k is 16 of its rows
                const char* panel = b_panel + at / 64 * (64 * kit::kPanelBytes);
                kit::load_b_fragments_transposed(b[j], b[j + 1], panel, chunk * 8, at % 64 / 8);
            } else {
                kit::load_b_fragments(b[j], b[j + 1], b_panel, at, chunk);
            }
        }
#pragma unroll
        for (int i = 0; i < Shape::kTilesM; ++i) {
#pragma unroll
            for (int j = 0; j < Shape::kTilesN; ++j) multiply<T>(sums[i][j], a[i], b[j]);
        }
    }
}

// What multiplies a warp's products of one step, 128 of k of e4m3: of its rows, and of its columns, which are of one block
// of b and, gated, of one of up.
template <class Shape>
struct WarpScales {
    float row[Shape::kTilesM][2], column[2];

    template <class Arguments>
    __device__ __forceinline__ WarpScales(const Arguments& args, const Place& place, int64_t step) {
        const int64_t first =
            place.row + static_cast<int>(threadIdx.x) / 32 / Shape::kWarpColumns * Shape::kWarpM;
#pragma unroll
        for (int i = 0; i < Shape::kTilesM; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int64_t at = first + i * 16 + kit::accumulator_row(2 * half);
                row[i][half] = args.scales.a.of(at, step, at < args.m);
            }
        }
        column[0] = args.scales.b.of(place.column, step);
        column[1] = args.epilogue.gated ? args.scales.up.of(place.column, step) : column[0];
    }
    __device__ __forceinline__ void add(Sums<Shape>& sums, const Sums<Shape>& products) const {
#pragma unroll
        for (int i = 0; i < Shape::kTilesM; ++i) {
#pragma unroll
            for (int j = 0; j < Shape::kTilesN; ++j) {
#pragma unroll
                for (int q = 0; q < 4; ++q)
                    sums[i][j][q] = fmaf(products[i][j][q], row[i][q / 2] * column[j % 2], sums[i][j][q]);
            }
        }
    }
};

// The ring: stages - 1 loads are under way while one stage is multiplied. One barrier a step: it makes the
// stage visible, and says that everybody has left the stage that is loaded next.
template <class T, class Shape, Weights kWeights, class Arguments>
__device__ __forceinline__ void accumulate(Sums<Shape, kit::Accumulator<T>>& sums, char* ring,
                                           const Arguments& args, const Place& place, int64_t begin,
                                           int64_t end) {
    constexpr bool kTransposed = kWeights == Weights::columns;
    constexpr int kAhead = Shape::kStages - 1;
    for (int i = 0; i < kAhead; ++i) {
        if (begin + i < end) {
            load_stage<T, Shape, kTransposed>(ring + i * Shape::kStageBytes, args, place, begin + i);
        }
        kit::cp_async_commit();
    }
    int now = 0, next = kAhead;
    for (int64_t step = begin; step < end; ++step) {
        kit::cp_async_wait<kAhead - 1>();
        __syncthreads();
        if (step + kAhead < end) {
            load_stage<T, Shape, kTransposed>(ring + next * Shape::kStageBytes, args, place, step + kAhead);
        }
        kit::cp_async_commit();
        const char* stage = ring + now * Shape::kStageBytes;
        if constexpr (kWeights == Weights::scaled) {
            Sums<Shape> products = {};
            multiply_stage<T, Shape, kTransposed>(products, stage);
            WarpScales<Shape>(args, place, step).add(sums, products);
        } else {
            multiply_stage<T, Shape, kTransposed>(sums, stage);
        }
        now = now + 1 == Shape::kStages ? 0 : now + 1;
        next = next + 1 == Shape::kStages ? 0 : next + 1;
    }
    kit::cp_async_wait<0>();
    __syncthreads();  // the ring becomes the place of the sums
}

// Some steps whose codes are on their way in registers, while as many before them are multiplied. Operand: AnyPacked or
// PlainPacked.
template <class T, class Shape, template <int, int> class Operand>
class PackedSteps {
   public:
    static constexpr int kCount = Shape::kStages / 2;

    __device__ __forceinline__ PackedSteps(const MmaArguments& args, const Place& place)
        : args_(args),
          place_(place),
          a_from_(args.packed_a, args.packed_a, false, place.row),
          b_from_(args.packed_b, args.packed_up, args.epilogue.gated, place.column) {}

    // Asks for the steps from `step` on, of which one is before `end` at least; those that are have the slots, where an a of
    // numbers goes at once.
    __device__ __forceinline__ void fetch(char* slots, int64_t step, int64_t end) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) b_from_.fetch(b_[i], (step + i) * kDepth);
        if (args_.packed_a.data != nullptr) {
#pragma unroll
            for (int i = 0; i < kCount; ++i) a_from_.fetch(a_[i], (step + i) * kDepth);
        } else {
            each(slots, end - step,
                 [&](int i, char* slot) { load_tokens<T, Shape>(slot, args_, place_, step + i); });
        }
        kit::cp_async_commit();
    }
    __device__ __forceinline__ void put(char* slots, int64_t step, int64_t end) const {
        each(slots, end - step, [&](int i, char* slot) {
            const int64_t left = args_.packed_b.length - (step + i) * kDepth;
            B::Part::template put<T>(slot + Shape::kABytes, b_[i], args_.packed_b.groups().dtype, left);
            if (args_.packed_a.data != nullptr)
                A::Part::template put<T>(slot, a_[i], args_.packed_a.groups().dtype, left);
        });
    }
    __device__ __forceinline__ static void multiply(Sums<Shape>& sums, char* slots, int64_t steps) {
        each(slots, steps, [&](int, const char* slot) { multiply_stage<T, Shape, false, 2>(sums, slot); });
    }

   private:
    static constexpr int kDepth = kit::kPanelBytes / sizeof(T);
    using A = Operand<Shape::kRows, Shape::kThreads>;
    using B = Operand<Shape::kColumns, Shape::kThreads>;

    // use(i, slot) for those of the steps that there are.
    template <class F>
    __device__ __forceinline__ static void each(char* slots, int64_t steps, F use) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            if (i < steps) use(i, slots + i * Shape::kStageBytes);
        }
    }

    const MmaArguments& args_;
    const Place& place_;
    A a_from_;
    B b_from_;
    typename A::Part::Eights a_[kCount];
    typename B::Part::Eights b_[kCount];
};

// The same of packed weights: the ring's halves take turns. One barrier for the steps of a half: it makes them visible, and
// says that everybody has left the other half.
template <class Steps, class Sums>
__device__ __forceinline__ void accumulate_packed(Sums& sums, char* now, char* next, Steps steps,
                                                  int64_t begin, int64_t end) {
    if (begin < end) steps.fetch(now, begin, end);
    steps.put(now, begin, end);
    for (int64_t step = begin; step < end; step += Steps::kCount) {
        kit::cp_async_wait<0>();
        __syncthreads();
        const int64_t after = step + Steps::kCount;
        if (after < end) steps.fetch(next, after, end);
        Steps::multiply(sums, now, end - step);
        steps.put(next, after, end);
        char* other = now;
        now = next, next = other;
    }
    __syncthreads();  // the ring becomes the place of the sums
}

// Whole sums become floats here.
template <class Shape, class Sum>
__device__ __forceinline__ void park_sums(float* parked,
                                          const Sum (&sums)[Shape::kTilesM][Shape::kTilesN][4]) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int row = warp / Shape::kWarpColumns * Shape::kWarpM,
              column = warp % Shape::kWarpColumns * Shape::kWarpN;
#pragma unroll
    for (int i = 0; i < Shape::kTilesM; ++i) {
#pragma unroll
        for (int j = 0; j < Shape::kTilesN; ++j) {
#pragma unroll
            for (int half = 0; half < 4; half += 2) {
                float* to = parked + (row + i * 16 + kit::accumulator_row(half)) * Shape::kSumStride +
                            column + j * 8 + kit::accumulator_column(half);
                *reinterpret_cast<float2*>(to) = make_float2(static_cast<float>(sums[i][j][half]),
                                                             static_cast<float>(sums[i][j][half + 1]));
            }
        }
    }
}

// What:    out tile = epilogue(sum over k of a · b [and of a · up]), see gemm.h.
// Mapping: a cluster of `splits` blocks a tile, each with every step of its part of k; a warp owns kWarpM by
//          kWarpN of the tile as mma fragments. The blocks' sums are added in rank order (deterministic), each
//          block finishing its share of the tile, four columns a thread.
// Traffic: a is read once for each column of tiles, b once for each row of tiles, through L2; bound by
//          mma.sync's rate.
// Needs:   kThreads threads, kSharedBytes of dynamic shared memory, steps >= splits or steps == 0 with one
//          split. Weights::scaled: elements of 8 bits, tiles that lie within a block of scales, which those of 64
//          columns do.
template <class T, class Shape, Weights kWeights>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    mma_gemm(const __grid_constant__ MmaArguments args) {
    char* ring = kit::dynamic_shared<char>();
    const int rank = args.splits > 1 ? static_cast<int>(kit::cluster_rank()) : 0;
    const Place place = place_of<Shape>(args, static_cast<int>(blockIdx.x) / args.splits);
    Sums<Shape, kit::Accumulator<T>> sums = {};
    const int64_t begin = args.steps * rank / args.splits, end = args.steps * (rank + 1) / args.splits;
    if constexpr (kWeights == Weights::packed) {
        char* half = ring + Shape::kStages / 2 * Shape::kStageBytes;
        if (args.plain) {
            accumulate_packed(sums, ring, half, PackedSteps<T, Shape, PlainPacked>(args, place), begin, end);
        } else {
            accumulate_packed(sums, ring, half, PackedSteps<T, Shape, AnyPacked>(args, place), begin, end);
        }
    } else {
        accumulate<T, Shape, kWeights>(sums, ring, args, place, begin, end);
    }

    float* parked = reinterpret_cast<float*>(ring);
    park_sums<Shape>(parked, sums);
    await_parked(args.splits);
    finish_parked<finished_rows(Shape::kRows)>(args.epilogue,
                                               {.at = parked,
                                                .stride = Shape::kSumStride,
                                                .group = 8,
                                                .tokens = Shape::kRows,
                                                .features = out_columns<Shape>(args),
                                                .token = place.row,
                                                .feature = place.column},
                                               args.m, args.n, rank, args.splits,
                                               static_cast<int>(threadIdx.x), Shape::kThreads);
    release_parked(args.splits);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
