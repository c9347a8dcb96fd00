// gemm's scales that change within a sum: those of groups of a's columns, and of blocks of the weights.
#pragma once

#include "kit/ptx/cp_async.cuh"
#include "ops/gemm/problem.h"

namespace weft::inline WEFT_TARGET {
namespace {

// One row's scales, step after step.
struct ScaleWalk {
    const float* at;  // null where the operand has none
    int64_t stride;
    bool inside;  // there is such a row; the scale of others is 0

    // Into shared memory by cp.async, then on to the next step: this row's, or its and those of the next three.
    __device__ __forceinline__ void bring(float* to) {
        if (at == nullptr) return;
        kit::cp_async<4>(to, at, inside);
        at += stride;
    }
    __device__ __forceinline__ void bring_four(float* to) {
        kit::cp_async_16(to, at, inside);
        at += stride;
    }
};

// Of one operand: a scale for each of its rows, or each 128 of them (Rows), and each 128 of k, a step. Strides count
// elements. Where `data` is null there are none, and all are 1.
template <int Rows>
struct StepScales {
    const float* data;
    int64_t row_stride, step_stride;

    __device__ __forceinline__ int64_t place(int64_t row, int64_t step) const {
        return row / Rows * row_stride + step * step_stride;
    }
    // `inside`: there is such a row; the scale of others is 0.
    __device__ __forceinline__ float of(int64_t row, int64_t step, bool inside = true) const {
        if (data == nullptr) return 1.0f;
        return inside ? data[place(row, step)] : 0.0f;
    }
    __device__ __forceinline__ ScaleWalk walk(int64_t row, int64_t step, bool inside) const {
        if (data == nullptr) return {};
        return {data + (inside ? place(row, step) : 0), inside ? step_stride : 0, inside};
    }
};

struct ScalesWithin {
    StepScales<1> a;
    StepScales<gemm::kScaleRows> b, up;
    bool by_fours;  // those of four tokens, from every fourth on, are 16 aligned bytes
};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
