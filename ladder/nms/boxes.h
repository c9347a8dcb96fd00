// What the rungs of this topic share: which calls they take, the order of the boxes, and when two overlap.
#pragma once

#include "ladder/rung.h"
#include "ops/nms/nms.h"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr int kMostBoxes = 8192;

const char* decline_nms(const Nms& op, const DeviceInfo&) {
    if (!is_dense(op.boxes, DType::fp32) || op.scores.dtype != DType::fp32 || op.keep.dtype != DType::int32)
        return "takes dense fp32 boxes and scores, and keeps int32";
    if (!starts_aligned(op.boxes, 16)) return "takes boxes that start at a multiple of 16 bytes";
    return op.boxes.dim(0) > kMostBoxes ? "has room for 8192 boxes" : nullptr;
}

// Does score a come before score b? NaN is the largest, and of equal scores the lower index is first.
__device__ __forceinline__ bool before(float a, int i, float b, int j) {
    const bool a_nan = a != a, b_nan = b != b;
    if (a_nan || b_nan) return a_nan && (!b_nan || i < j);
    return a > b || (a == b && i < j);
}

// Each box counts those before it: its place in the order. No sort is needed, and no two boxes get one place.
__global__ void rank(const float* scores, int n, int* order) {
    const int own = static_cast<int>(thread_in_grid());
    if (own >= n) return;
    int place = 0;
    for (int i = 0; i < n; ++i) place += before(scores[i], i, scores[own], own) ? 1 : 0;
    order[place] = own;
}

__device__ __forceinline__ float area(float4 box) {
    return __fmul_rn(__fsub_rn(box.z, box.x), __fsub_rn(box.w, box.y));
}
// Rounded after each operation, so that no compiler makes another decision at the threshold.
__device__ __forceinline__ bool overlap(float4 a, float4 b, float threshold) {
    const float width = fmaxf(__fsub_rn(fminf(a.z, b.z), fmaxf(a.x, b.x)), 0.0f);
    const float height = fmaxf(__fsub_rn(fminf(a.w, b.w), fmaxf(a.y, b.y)), 0.0f);
    const float both = __fmul_rn(width, height);
    return __fdiv_rn(both, __fsub_rn(__fadd_rn(area(a), area(b)), both)) > threshold;
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
