// The last phase of row kernels (kit/row.cuh): where a mapped row goes.
#pragma once

#include "kit/row.cuh"

namespace weft::inline WEFT_TARGET::kit {

// Where a mapped row goes. fp8 has at most one of the two scales: a static one for all that is read, or one a
// row that is computed and written.
struct RowOutput {
    RowOperand out;
    const float* scale = nullptr;
    float* token_scale = nullptr;
};

// A static scale, asked for early; what divides by it comes late, so that nothing waits for this load in between.
__device__ __forceinline__ float static_scale(const RowOutput& to) {
    return to.scale == nullptr ? 1.0f : *to.scale;
}

// map(slot, index, values) turns the row's values into the result's, in place. fp8 is multiplied by `inverse`.
template <class Row, class Map>
__device__ __forceinline__ void store_mapped(const Row& row, const RowOperand& to, float inverse, Map map) {
    constexpr int N = Row::kWidth, V = Row::kVectors;
    Row::with_out(to.dtype, [&](auto* type) {
        using Out = std::remove_pointer_t<decltype(type)>;
        Out* out = row.part.template origin<N, V>(static_cast<Out*>(to.data) + row.part.row * to.stride);
        row.each([&](int v, typename Row::Index index, float (&x)[N]) {
            map(v, index, x);
            if constexpr (sizeof(Out) == 1) {
#pragma unroll
                for (int i = 0; i < N; ++i) x[i] *= inverse;
            }
            store_aligned(out + index, from_floats<Out>(x));
        });
    });
}

// The same where fp8 may have a scale: the map is called once more where that is the row's. All threads of the group
// call this. `scale`: static_scale's.
template <class Row, GroupScope kScope, class Map>
__device__ __forceinline__ void store_row(const Row& row, Group<kScope>& group, const RowOutput& to,
                                          float scale, Map map) {
    constexpr int N = Row::kWidth;
    if (Row::kScaled && to.token_scale != nullptr) {
        float amax = 0.0f;
        row.each([&](int v, std::int64_t index, float (&x)[N]) {
            map(v, index, x);
#pragma unroll
            for (int i = 0; i < N; ++i) amax = fmaxf(amax, fabsf(x[i]));
        });
        scale = dynamic_scale(group.max(amax), to.out.dtype);
        if (row.part.first == 0 && row.part.present) to.token_scale[row.part.row] = scale;
    }
    store_mapped(row, to.out, Row::kScaled ? 1.0f / scale : 1.0f, map);
}

// Threads of a block that a row kernel is compiled for.
constexpr int row_bound(int vectors, RowForm form) { return weft::detail::row_threads(vectors, form); }

}  // namespace weft::inline WEFT_TARGET::kit
