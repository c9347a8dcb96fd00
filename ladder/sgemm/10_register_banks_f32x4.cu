// A product of matrices, 16 by 8 outputs a thread, whose multiply-adds find their operands in different register banks.
//
// Idea        A multiply-add reads three registers. They lie in two banks, the even and the odd ones, each of which gives one in
//             a cycle, and what the instruction before has read in the same place may be kept. A thread walks its outputs to and
//             fro, so that one number of A or of B is always kept; the other one and the sum must then differ in their banks. B
//             comes in vectors of four, which begin at an even register. Sums that leave as vectors do so too, each in the bank of
//             its number of B. Here they leave turned by one.
// Change      From 07: 16 by 8 outputs, a tile of 128 by 256 and slices of 32; A transposed on its way, so that a thread's rows
//             are vectors as well; a copy's addresses are a few sums, not computed anew.
// Prediction  1.14 cycles a multiply-add by these banks in the machine code, with the loads beside them 1.25, where 07 takes
//             1.7: near the vendor's library.
#include "ladder/row.cuh"
#include "ladder/sgemm/product.h"
#include "ladder/stages.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using Four = Pack<float, 4>;

constexpr int kHigh = 128, kWide = 256, kDeep = 32, kStages = 3, kThreads = 256;

struct Stage {
    alignas(16) float a[kDeep][kHigh + 4];
    alignas(16) float b[kDeep][kWide];
};

// What a thread brings of each slice: elements of one column of A, and vectors of B. Beyond an edge of the output any number will
// do, so that the last row or column is read again; beyond k there are zeros.
template <int kVector>
struct Copies {
    static constexpr int kApart = kThreads / kDeep, kLanes = kWide / kVector, kRows = kThreads / kLanes;
    const float *a, *b;               // of the next slice
    std::int64_t left, across;        // of k; between rows of B
    unsigned rows[kHigh / kApart];    // of A, from a on
    int column, row, first, columns;  // of A's slice, of B's; where rows of A and columns of B begin

    __device__ __forceinline__ Copies(const float* a_, const float* b_, const Sizes& s, std::int64_t down,
                                      std::int64_t right)
        : a(a_ + down * s.k), left(s.k), across(s.n) {
        const int t = static_cast<int>(threadIdx.x);
        column = t % kDeep, first = t / kDeep, row = t / kLanes, columns = t % kLanes * kVector;
        const int last = static_cast<int>(min(s.m - down, std::int64_t{kHigh})) - 1;
#pragma unroll
        for (int i = 0; i < kHigh / kApart; ++i)
            rows[i] = static_cast<unsigned>(min(first + kApart * i, last) * s.k);
        b = b_ + min(right + columns, s.n - kVector);
    }
    __device__ __forceinline__ void bring(Stage& to) {
        const int rest = static_cast<int>(min(left, std::int64_t{kDeep}));
        const float* from_a = column < rest ? a + column : a;
#pragma unroll
        for (int i = 0; i < kHigh / kApart; ++i)
            kit::cp_async<4>(&to.a[column][first + kApart * i], from_a + rows[i], column < rest);
#pragma unroll
        for (int i = 0; i < kDeep / kRows; ++i) {
            const bool there = row + kRows * i < rest;
            const float* from_b = b + (there ? row + kRows * i : 0) * across;
            if constexpr (kVector == 4) {
                kit::cp_async_16(&to.b[row + kRows * i][columns], from_b, there);
            } else {
                kit::cp_async<4>(&to.b[row + kRows * i][columns], from_b, there);
            }
        }
        a += kDeep, b += kDeep * across, left -= kDeep;
    }
};

// From (down, across) on a thread has four of each 16 rows and four of each 32 columns.
__device__ __forceinline__ void multiply_stage(float (&sums)[16][8], const Stage& stage, int down,
                                               int across) {
#pragma unroll 8
    for (int k = 0; k < kDeep; ++k) {
        Four a[4], b[2];
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i] = *reinterpret_cast<const Four*>(&stage.a[k][down + 16 * i]);
#pragma unroll
        for (int i = 0; i < 2; ++i) b[i] = *reinterpret_cast<const Four*>(&stage.b[k][across + 32 * i]);
#pragma unroll
        for (int i = 0; i < 128; ++i) {
            const int y = i / 8, x = y % 2 == 0 ? i % 8 : 7 - i % 8;
            sums[y][x] = fmaf(a[y / 4].at[y % 4], b[x / 4].at[x % 4], sums[y][x]);
        }
    }
}

// Through shared memory, where four sums turn back. The barrier is for the compiler too, which would else turn them in registers.
__device__ __forceinline__ void store_sums(const float (&sums)[16][8], float* c, const Sizes& s,
                                           std::int64_t down, std::int64_t across) {
    Four* parked = kit::dynamic_shared<Four>() + threadIdx.x;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        const float* four = &sums[i / 2][i % 2 * 4];
        parked[kThreads * i] = Four{four[1], four[2], four[3], four[0]};
    }
    __syncthreads();
#pragma unroll 4
    for (int i = 0; i < 32; ++i) {
        const float (&four)[4] = parked[kThreads * i].at;
        const std::int64_t row = down + i / 2 % 4 + i / 8 * 16, column = across + i % 2 * 32;
        if (row >= s.m) continue;
        if (s.whole && column < s.n)
            *reinterpret_cast<Four*>(&c[row * s.n + column]) = Four{four[3], four[0], four[1], four[2]};
        for (int j = 0; j < 4 && !s.whole; ++j) {
            if (column + j < s.n) c[row * s.n + column + j] = four[(j + 3) % 4];
        }
    }
}

// Eight warps, two by four, have 64 by 64 outputs each, and their lanes four by eight vectors of each 16 by 32.
template <int kVector>
__device__ __forceinline__ void multiply(const float* a, const float* b, float* c, const Sizes& s) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int down = warp / 4 * 64 + lane % 4 * 4, across = warp % 4 * 64 + lane / 4 * 4;
    const std::int64_t row = blockIdx.x / s.across * kHigh, column = blockIdx.x % s.across * kWide;
    Copies<kVector> copies(a, b, s, row, column);
    float sums[16][8] = {};
    for_stages<kStages>(
        kit::dynamic_shared<Stage>(), (s.k + kDeep - 1) / kDeep,
        [&](Stage& to, std::int64_t) { copies.bring(to); },
        [&](const Stage& now) { multiply_stage(sums, now, down, across); });
    store_sums(sums, c, s, row + down, column + across);
}

__global__ void __launch_bounds__(kThreads, 1) gemm(const float* a, const float* b, float* c, Sizes s) {
    s.whole ? multiply<4>(a, b, c, s) : multiply<1>(a, b, c, s);
}

const RegisterRung<Gemm> kRung{+[](const Gemm& op, const DeviceInfo&) {
                                   if (op.a.dim(-1) > std::int64_t{1} << 25)
                                       return "takes rows of at most 2^25 elements";
                                   return decline_product(op, DType::fp32, DType::fp32);
                               },
                               +[](const Gemm& op, Context& context) {
                                   launch_product(kRung.name(), gemm, kHigh, kWide, dim3(kThreads), op,
                                                  context, kStages * sizeof(Stage));
                               }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
