// The last phase of row kernels (kit/row.cuh): where a mapped row goes.
#pragma once

#include "kit/row.cuh"

namespace weft::inline WEFT_TARGET::kit {

// Where a mapped row goes. fp8 has at most one of the two scales: a static one for all that is read, or one a
// row that is computed and written.
struct RowOutput {
    RowOperand out{};
    const float* scale = nullptr;
    float* token_scale = nullptr;
};

// A static scale, asked for early; what divides by it comes late, so that nothing waits for this load in between.
__device__ __forceinline__ float static_scale(const RowOutput& to) {
    return to.scale == nullptr ? 1.0f : *to.scale;
}

// Calls use(slot, index, values) with the mapped values of each vector of the row. A map may have a function
// before(index), to be called before each run of vectors.
template <class Row, class Map, class Use>
__device__ __forceinline__ void each_mapped(const Row& row, const Map& map, Use use) {
    constexpr int N = Row::kWidth;
    const auto mapped = [&](int v, typename Row::Index index, float (&x)[N]) {
        map(v, index, x);
        use(v, index, x);
    };
    if constexpr (requires { map.before; }) {
        row.each(mapped, map.before);
    } else {
        row.each(mapped);
    }
}

// One vector of a mapped row. A uniform row goes to T or e4m3, a mixed one to any dtype.
template <class T, class Row>
__device__ __forceinline__ void store_vector(const Row& row, const RowOperand& to, std::int64_t begin,
                                             typename Row::Index index, const float (&x)[Row::kWidth]) {
    const auto store_as = [&](auto* type) {
        using Out = std::remove_pointer_t<decltype(type)>;
        Out* out = row.part.template origin<Row::kWidth, Row::kVectors>(static_cast<Out*>(to.data) + begin);
        store_aligned(out + index, from_floats<Out>(x));
    };
    if constexpr (!Row::kForm.uniform) return with_type(to.dtype, store_as);
    if (sizeof(T) == 4 || to.dtype == kDTypeOf<T>) return store_as(static_cast<T*>(nullptr));
    if constexpr (sizeof(T) != 4) store_as(static_cast<e4m3*>(nullptr));
}

// map(slot, index, values) turns the row's values into the result's, in place, which are multiplied by `inverse` (1 where
// out is not fp8).
template <class T, class Row, class Map>
__device__ __forceinline__ void store_mapped(const Row& row, const RowOperand& to, float inverse,
                                             const Map& map) {
    const std::int64_t begin = row.part.offset(to);
    each_mapped(row, map, [&](int, typename Row::Index index, float (&x)[Row::kWidth]) {
#pragma unroll
        for (float& value : x) value *= inverse;
        store_vector<T>(row, to, begin, index, x);
    });
}

// The same where fp8 may have a scale: the map is called once more where that is the row's, in the same code, which is
// there once. All threads of the group call this. `scale`: static_scale's.
template <class T, class Row, GroupScope kScope, class Map>
__device__ __forceinline__ void store_row(const Row& row, Group<kScope>& group, const RowOutput& to,
                                          float scale, const Map& map) {
    if (to.token_scale != nullptr) {
        float amax = 0.0f;
        each_mapped(row, map, [&](int, typename Row::Index, float (&x)[Row::kWidth]) {
#pragma unroll
            for (const float value : x) amax = fmaxf(amax, fabsf(value));
        });
        scale = dynamic_scale(group.max(amax), to.out.dtype);
        if (row.part.first == 0 && row.part.present) to.token_scale[row.part.row] = scale;
    }
    store_mapped<T>(row, to.out, 1.0f / scale, map);
}

// Threads of a block that a row kernel is compiled for.
constexpr int row_bound(int vectors, RowForm form) { return weft::detail::row_threads(vectors, form); }

}  // namespace weft::inline WEFT_TARGET::kit
