// What a row kernel does around kit/row.cuh: which rows it takes, and where their results go.
#pragma once

#include "kit/row.cuh"

namespace weft::inline WEFT_TARGET::kit {

// Sends a thread's part of x on its way into its own places of `ring`: whoever copies reads, so no barrier is needed.
template <class T, int N, int V>
__device__ __forceinline__ void load_ring(Words<T, N>* ring, const RowPart& part, const RowOperand& x) {
    const T* data = static_cast<const T*>(x.data) + part.row * x.stride;
    part.each<N, V>([&](int v, RowIndex<V> index) {
        cp_async_16(&ring[static_cast<unsigned>(v) * blockDim.x], data + index);
    });
}

// body(row) for the rows of the calling thread's group, one or several: then the next kRowRing are always on their way.
// meanwhile(part) comes once, after the first loads.
template <class T, int N, int V, class Form, class Meanwhile, class Body>
__device__ __forceinline__ void for_each_row(const Group<Form::kForm.scope>& group, const RowShape& shape,
                                             const RowInput& in, Meanwhile meanwhile, Body body) {
    const RowPart first(group, shape);
    if constexpr (!Form::kForm.turns()) {
        Row<T, N, V, Form> row(first);
        row.load(in, [&] { meanwhile(first); });
        group.begin();
        body(row);
    } else {
        Words<T, N>* ring = dynamic_shared<Words<T, N>>() + V * blockDim.x + threadIdx.x;
        const auto turns = static_cast<int>(min(std::int64_t{shape.turns}, shape.rows - first.row));
        const auto request = [&](int turn) {  // a group of copies, empty where there is no such row
            if (turn < turns)
                load_ring<T, N, V>(ring + turn % kRowRing * V * blockDim.x, first.later(turn), in.x);
            cp_async_commit();
        };
#pragma unroll
        for (int turn = 0; turn < kRowRing; ++turn) request(turn);
        meanwhile(first);
        group.begin();
        for (int turn = 0; turn < turns; ++turn) {
            Row<T, N, V, Form> row(first.later(turn));
            cp_async_wait<kRowRing - 1>();
            row.take(ring + turn % kRowRing * V * blockDim.x);
            request(turn + kRowRing);
            body(row);
        }
    }
}

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
    constexpr int N = Row::kWidth;
    Row::with_out(to.dtype, [&](auto* type) {
        using Out = std::remove_pointer_t<decltype(type)>;
        Out* out = static_cast<Out*>(to.data) + row.part.row * to.stride;
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
