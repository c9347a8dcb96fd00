// Sums that lie in memory, finished.
#pragma once

#include "kit/divisor.cuh"
#include "kit/ptx/pdl.cuh"
#include "ops/gemm/epilogue.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kFinishThreads = 256;

struct FinishArguments {
    const float *sums, *up;  // rows `stride` elements apart, at 16 bytes; up: null where nothing is gated
    int64_t stride, n;
    kit::Divisor fours;  // of a row; the last may have less
    unsigned count;      // of all rows
    Epilogue epilogue;
};

__device__ __forceinline__ void load_sums(const float* from, float (&to)[4]) {
    const float4 four = kit::load(reinterpret_cast<const float4*>(from));
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}

// What     out = the epilogue (ops/gemm/epilogue.cuh) of sums, of one product or of both
// Mapping  a thread owns four neighbouring results
// Traffic  sums, gate and residual once, out once: bound by memory
// Needs    up where the epilogue is gated
__global__ void __launch_bounds__(kFinishThreads) finish_sums(const __grid_constant__ FinishArguments args) {
    kit::dependency_wait();
    kit::dependents_launch();
    const unsigned index = blockIdx.x * kFinishThreads + threadIdx.x;
    if (index >= args.count) return;
    const unsigned row = args.fours.quotient(index);
    const int64_t column = int64_t{index - row * args.fours.divisor} * 4, at = row * args.stride + column;
    const FourColumns columns =
        load_columns(args.epilogue, column, static_cast<int>(min(args.n - column, int64_t{4})));
    Four four[1] = {};
    four[0].row = row, four[0].wanted = true;
    load_sums(args.sums + at, four[0].value);
    if (args.epilogue.gated) load_sums(args.up + at, four[0].up);
    load_addends(args.epilogue, columns, four[0]);
    finish_fours(args.epilogue, load_scales(args.epilogue), columns, four);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
