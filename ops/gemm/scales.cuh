// gemm's scales that change within a sum: those of groups of a's columns, and of blocks of the weights.
#pragma once

#include "kit/ptx/cp_async.cuh"
#include "ops/gemm/problem.h"

namespace weft::inline WEFT_TARGET {
namespace {

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
    // The same into shared memory by cp.async, where there are any.
    __device__ __forceinline__ void bring(float* to, int64_t row, int64_t step, bool inside) const {
        if (data != nullptr) kit::cp_async<4>(to, data + (inside ? place(row, step) : 0), inside);
    }
};

struct ScalesWithin {
    StepScales<1> a;
    StepScales<gemm::kScaleRows> b, up;
};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
