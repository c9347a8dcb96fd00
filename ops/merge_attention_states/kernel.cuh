// merge_attention_states' kernel.
#pragma once

#include "kit/axis_walk.cuh"
#include "kit/elementwise.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kWidth = 8;  // elements of a vector: 16 bytes of a 16-bit input

// One number a head and token of a batch, of any strides.
struct Lse {
    float* data = nullptr;
    std::int64_t stride[3] = {};  // by head, token, batch: the order in which rows count them

    __device__ __forceinline__ float& at(std::int64_t offset) const { return data[offset]; }
};

struct MergeParams {
    kit::VectorRows a, b, out;
    Lse lse_a, lse_b, lse;  // lse may be absent
    kit::AxisWalk rows;     // heads, tokens, batches
};

__device__ __forceinline__ float finite_or_none(float lse) { return lse == INFINITY ? -INFINITY : lse; }

// The states' shares of the output, and the logarithm of both sums.
struct Shares {
    float a = 0.0f, b = 0.0f, lse;

    __device__ __forceinline__ Shares(float lse_a, float lse_b) {
        const float most = lse_a > lse_b || lse_a != lse_a ? lse_a : lse_b;
        lse = most;
        if (most == -INFINITY) return;
        a = expf(lse_a - most);
        b = expf(lse_b - most);
        const float sum = a + b;
        lse += logf(sum);
        a /= sum;
        b /= sum;
    }
};

// What     out = (e^lse_a·a + e^lse_b·b) / (e^lse_a + e^lse_b), lse beside it where it is wanted
// Mapping  a thread owns one vector of 8 elements of a row, which is a token's head (kit/elementwise.cuh), and works out
//          the row's shares for itself; the first one stores lse
// Traffic  a, b and out once: bound by memory; the log-sum-exps come from L1 for all but the first thread of a row
// Needs    out may be a's or b's memory. T, where it is not Any, is the dtype of all three, whose vectors are whole
template <class T>
__global__ void __launch_bounds__(256)
    merge_attention_states(const __grid_constant__ MergeParams p, kit::RowTiles tiles) {
    kit::for_each_vector<kWidth, T>(tiles, [&](const auto& at) {
        std::int64_t from_a = 0, from_b = 0, to = 0;
        p.rows.each(at.row, [&](int axis, std::int64_t index) {
            from_a += index * p.lse_a.stride[axis];
            from_b += index * p.lse_b.stride[axis];
            to += index * p.lse.stride[axis];
        });
        float a[kWidth], b[kWidth];
        kit::load_row<T>(p.a, at, a);
        kit::load_row<T>(p.b, at, b);
        const Shares shares(finite_or_none(p.lse_a.at(from_a)), finite_or_none(p.lse_b.at(from_b)));
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
            const float of_a = shares.a == 0.0f ? 0.0f : shares.a * a[i];
            const float of_b = shares.b == 0.0f ? 0.0f : shares.b * b[i];
            a[i] = of_a + of_b;
        }
        kit::store_row<T>(p.out, at, a);
        if (p.lse.data != nullptr && kit::begins_row(at)) p.lse.at(to) = shares.lse;
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
