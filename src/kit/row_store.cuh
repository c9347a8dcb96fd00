// The last phase of row kernels (kit/row.cuh): where a mapped row goes.
#pragma once

#include "kit/narrow.cuh"
#include "kit/row.cuh"

namespace weft::inline WEFT_TARGET::kit {

// Where a mapped row goes. Fewer bits have a static scale for all, which is read, or one a row or one for each group of
// columns, which is computed and written; the first may stand over the last.
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
        each_vector(row, mapped, map.before);
    } else {
        each_vector(row, mapped, [](typename Row::Index) {});
    }
}

// map(slot, index, values) turns the row's values into the result's, in place, which are multiplied by `inverse` (1 where
// out is not fp8). Decided outside of the loop: rows that go to T, and uniform ones that go to e4m3.
template <class T, class Row, class Map>
__device__ __forceinline__ void store_mapped(const Row& row, const RowOperand& to, float inverse,
                                             const Map& map) {
    constexpr int N = Row::kWidth, V = Row::kVectors;
    const std::int64_t begin = row.part.offset(to);
    const auto store_all = [&](auto* type, bool scaled) {
        using Out = std::remove_pointer_t<decltype(type)>;
        Out* out = row.part.template origin<N, V>(static_cast<Out*>(to.data) + begin);
        each_mapped(row, map, [&](int, typename Row::Index index, float (&x)[N]) {
            if (scaled) {
#pragma unroll
                for (float& value : x) value *= inverse;
            }
            store_aligned(out + index, from_floats<Out>(x));
        });
    };
    constexpr bool kNarrow = Row::kForm.uniform && Row::kForm.fp8 && sizeof(T) != 4;
    if constexpr (kNarrow && !fills_registers(V)) return store_all(static_cast<e4m3*>(nullptr), true);
    if ((Row::kForm.uniform && !kNarrow) || to.dtype == kDTypeOf<T>)
        return store_all(static_cast<T*>(nullptr), false);
    if constexpr (kNarrow) {
        store_all(static_cast<e4m3*>(nullptr), true);
    } else if constexpr (!Row::kForm.uniform) {
        each_mapped(row, map, [&](int, typename Row::Index index, float (&x)[N]) {
#pragma unroll
            for (float& value : x) value *= inverse;
            with_type(to.dtype, [&](auto* type) {
                using Out = std::remove_pointer_t<decltype(type)>;
                Out* out = row.part.template origin<N, V>(static_cast<Out*>(to.data) + begin);
                store_aligned(out + index, from_floats<Out>(x));
            });
        });
    }
}

// With a scale for each group of columns, which neighbouring lanes hold: a group has no more lanes than the row. All
// threads of the block call this. `tensor`: the scale over those of the groups.
template <class Row, class Map>
__device__ __forceinline__ void store_grouped(const Row& row, const RowOutput& to, const GroupScales& groups,
                                              float tensor, const Map& map) {
    constexpr int N = Row::kWidth;
    const GroupedRows out{.data = to.out.data, .dtype = to.out.dtype, .aligned = true, .groups = groups};
    const std::int64_t begin = row.part.offset(to.out);
    const int lanes = group_columns(groups.dtype) / N;
    const auto store = [&](int v, typename Row::Index index, float (&x)[N], bool there) {
        if (there) map(v, index, x);
        store_group(out, begin, row.part.at.row, index, there ? N : 0, x, lanes, tensor);
    };
    if constexpr (requires { map.before; }) {
        each_slot(row, store, map.before);
    } else {
        each_slot(row, store, [](typename Row::Index) {});
    }
}

// The same where fewer bits may have a scale: the map is called once more where that is the row's. All threads of the
// group call this. `scale`: static_scale's.
template <class T, class Row, GroupScope kScope, class Map>
__device__ __forceinline__ void store_row(const Row& row, Group<kScope>& group, const RowOutput& to,
                                          float scale, const Map& map) {
    if (Row::kForm.fp8 && to.token_scale != nullptr) [[unlikely]] {
        // Of what a uniform row is stored as, NaN has codes.
        const AmaxOrNan largest{.keeps_nan = !Row::kForm.uniform && to.out.dtype == DType::int8};
        float amax = 0.0f;
        each_mapped(row, map, [&](int, typename Row::Index, float (&x)[Row::kWidth]) {
#pragma unroll
            for (const float value : x) amax = largest(amax, fabsf(value));
        });
        scale = dynamic_scale(group.reduce(amax, largest), to.out.dtype);
        if (row.part.first == 0 && row.part.present) to.token_scale[row.part.at.row] = scale;
    }
    store_mapped<T>(row, to.out, 1.0f / scale, map);
}

// Threads of a block that a row kernel is compiled for.
constexpr int row_bound(int vectors, RowForm form) { return weft::detail::row_threads(vectors, form); }
// And how many blocks of so many an SM is to have room for: what its registers allow, as plans count on.
constexpr int row_blocks(int vectors, RowForm form) {
    if (!form.uniform) return 1;
    return 65536 / (weft::detail::row_registers(vectors, form) * row_bound(vectors, form));
}

}  // namespace weft::inline WEFT_TARGET::kit
