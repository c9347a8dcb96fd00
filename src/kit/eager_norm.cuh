// What follows the norm of a row where its bits are those of PyTorch's operators (rounding=eager): each rounds to the dtype of
// its result.
#pragma once

#include "kit/row_norm.cuh"
#include "kit/streamed_row.cuh"

namespace weft::inline WEFT_TARGET::kit {

// What an operator's result is stored as: T, or fp32 where an operand is `wide`.
template <class T>
__device__ __forceinline__ float round_step(float x, bool wide) {
    return wide ? x : round_through<T>(x);
}

// y + shift, of N elements from `index` on.
template <class T, int N>
__device__ __forceinline__ void add_in_steps(const RowOperand& shift, const RowPart& part, std::int64_t index,
                                             bool wide, float (&y)[N]) {
    float b[N];
    load_floats(shift, part, index, -0.0f, b);
#pragma unroll
    for (int i = 0; i < N; ++i) y[i] = round_step<T>(__fadd_rn(round_step<T>(y[i], wide), b[i]), wide);
}
// y * (offset + scale) + shift
template <class T, int N>
[[gnu::noinline]] __device__ void modulate_in_steps(const RowAffine& map, const RowPart& part,
                                                    std::int64_t index, float (&y)[N]) {
    const bool wide = (map.scale.data != nullptr ? map.scale : map.shift).dtype == DType::fp32;
    if (map.scale.data != nullptr) {
        float s[N];
        load_floats(map.scale, part, index, 1.0f, s);
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const float scale = map.tanh ? round_step<T>(tanhf(s[i]), wide) : s[i];
            const float factor = round_step<T>(__fadd_rn(scale, map.offset), wide);
            y[i] = round_step<T>(__fmul_rn(round_step<T>(y[i], wide), factor), wide);
        }
    }
    if (map.shift.data != nullptr) add_in_steps<T>(map.shift, part, index, wide, y);
}

// Stores the outputs of a norm: its elements, which are not rounded yet, or what a modulation makes of them.
template <class T, int N>
__device__ __forceinline__ void store_in_steps(const MixedNorm& p, const RowPart& part, std::int64_t index,
                                               const float (&normed)[N]) {
#pragma unroll 1
    for (int output = p.outputs - 1; output >= 0; --output) {
        float y[N];
        memcpy(y, normed, sizeof(y));
        if (p.modulated) modulate_in_steps<T>(p.maps[output + 1], part, index, y);
        store_row_floats<T>(output == 0 ? p.to.out : p.second.out, part, index, y);
    }
}

}  // namespace weft::inline WEFT_TARGET::kit
