// The last phase of row kernels: where a mapped row goes, of a uniform kernel (kit/row.cuh), one of any rows or a mixed
// one.
#pragma once

#include "kit/any_row.cuh"
#include "kit/mixed_row.cuh"
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

// The scale of a row that the row's largest magnitude gives; stored, too. `amax`: of the thread's part. All threads of the
// group call this.
template <class Row, GroupScope kScope>
__device__ __forceinline__ float store_token_scale(const Row& row, Group<kScope>& group, const RowOutput& to,
                                                   float amax, AmaxOrNan largest) {
    const float scale = dynamic_scale(group.reduce(amax, largest), to.out.dtype);
    if (row.part.first == 0 && row.part.present) to.token_scale[row.part.at.row] = scale;
    return scale;
}

// Of a uniform row: map(slot, index, values) turns the row's values into the result's, in place, which are multiplied by
// `inverse` (1 where out is not fp8) and stored as T or e4m3; as T in `second` as well, if that is there. The row is mapped
// once more where each has a scale. All threads of the group call this. `scale`: static_scale's.
template <class T, class Row, class Map>
__device__ __forceinline__ void store_mapped(const Row& row, const RowOperand& to, float inverse,
                                             const Map& map, const RowOperand& second = {}) {
    constexpr int N = Row::kWidth, V = Row::kVectors;
    const std::int64_t begin = row.part.offset(to);
    T* also = nullptr;
    if (second.data != nullptr) also = row.part.template origin<N, T>(second);
    const auto store_all = [&](auto* type, bool scaled) {
        using Out = std::remove_pointer_t<decltype(type)>;
        Out* out = row.part.template origin<N, Out>(to.data, begin);
        row.each([&](int v, int index, float (&x)[N]) {
            map(v, index, x);
            if (scaled) {
#pragma unroll
                for (float& value : x) value *= inverse;
            }
            store_aligned(out + index, from_floats<Out>(x));
            if constexpr (std::is_same_v<Out, T>) {
                if (also != nullptr) store_aligned(also + index, from_floats<T>(x));
            }
        });
    };
    if constexpr (Row::kForm.fp8 && sizeof(T) != 4) {
        // Known where the form says what out is, and not only what it may be.
        if (!fills_registers(V) || to.dtype != kDTypeOf<T>)
            return store_all(static_cast<e4m3*>(nullptr), true);
    }
    store_all(static_cast<T*>(nullptr), false);
}
template <class T, class Row, GroupScope kScope, class Map>
__device__ __forceinline__ void store_row(const Row& row, Group<kScope>& group, const RowOutput& to,
                                          const RowOperand& second, float scale, const Map& map) {
    if (Row::kForm.fp8 && to.token_scale != nullptr) [[unlikely]] {
        const AmaxOrNan largest{.keeps_nan = false};  // e4m3 has a code for NaN
        float amax = 0.0f;
        row.each([&](int v, int index, float (&x)[Row::kWidth]) {
            map(v, index, x);
#pragma unroll
            for (const float value : x) amax = largest(amax, fabsf(value));
        });
        scale = store_token_scale(row, group, to, amax, largest);
    }
    store_mapped<T>(row, to.out, 1.0f / scale, map, second);
}

// store(octet's number, its elements, values) for codes whose groups of columns have a scale each, which neighbouring lanes
// find together: a group has no more of them than the row. A lane without an octet has no elements, and values of 0.
__device__ __forceinline__ auto group_store(const RowPart& part, const RowOutput& to,
                                            const GroupScales& groups, float scale) {
    const GroupedRows codes{.data = to.out.data, .dtype = to.out.dtype, .aligned = true, .groups = groups};
    return [codes, scale, begin = part.offset(to.out), row = part.at.row,
            lanes = group_columns(groups.dtype) / kOctet](int number, int count, float (&octet)[kOctet]) {
        store_group(codes, begin, row, std::int64_t{number} * kOctet, count, octet, lanes, scale);
    };
}

// Of a row with operands beside it: its results `y`, of any dtype that has 16 bits or more, or as codes of one that has
// eight. All threads of the group call this.
template <class Row, GroupScope kScope, class Side>
__device__ __forceinline__ void store_beside(const Row& row, Group<kScope>& group, const RowOutput& to,
                                             float scale, const Side& y) {
    constexpr int kPiece = Row::kPiece;
    if (to.token_scale != nullptr) [[unlikely]] {
        const AmaxOrNan largest{.keeps_nan = to.out.dtype == DType::int8};  // which has no code for it
        float amax = 0.0f;
        row.part.template each<kPiece, Side::kPieces>([&](int piece, int) {
            float values[kPiece];
            y.get(piece, values);
#pragma unroll
            for (const float value : values) amax = largest(amax, fabsf(value));
        });
        scale = store_token_scale(row, group, to, amax, largest);
    }
    const std::int64_t begin = row.part.offset(to.out);
    if (stored_bytes(to.out.dtype) == 1) {
        const float inverse = 1.0f / scale;
        return with_one_of<e4m3, e5m2, std::int8_t>(to.out.dtype, [&](auto* type) {
            store_pieces<std::remove_pointer_t<decltype(type)>>(row.part, to.out, begin, y,
                                                                [&](float value) { return value * inverse; });
        });
    }
    store_wide(row.part, to.out, begin, y);
}

// The same as codes of any dtype whose groups have scales.
template <class Row>
__device__ __forceinline__ void store_beside_groups(const Row& row, const RowOutput& to,
                                                    const GroupScales& groups, float scale,
                                                    SideSlice<Row::kVectors>& y) {
    const auto store = group_store(row.part, to, groups, scale);
    in_turn(y.at, [&](int v, float (&octet)[kOctet]) {
        const int number = row.part.first + v * row.part.step;
        const bool there = number * kOctet < static_cast<int>(row.part.dim);
#pragma unroll
        for (float& value : octet) value = there ? value : 0.0f;
        store(number, there ? kOctet : 0, octet);
    });
}

// Of a chunk of a mixed row that is mapped already: to any dtype. `groups`: of columns that have a scale each, where no row
// is ragged; or null.
template <bool kRagged>
__device__ __forceinline__ void store_chunk(MixedRow<kRagged>& row, const RowOutput& to,
                                            const GroupScales* groups, float scale) {
    if (kRagged || groups == nullptr) return row.store(row.row_of(to.out), 1.0f / scale);
    row.each_slot(group_store(row.part, to, *groups, scale));
}

// Of a mixed row: map() makes the chunk's results, beside it, once; of a row in chunks twice where each has a scale. All
// threads of the block call this.
template <bool kRagged, GroupScope kScope, class Map>
__device__ __forceinline__ void store_mixed(MixedRow<kRagged>& row, Group<kScope>& group, const RowOutput& to,
                                            const GroupScales* groups, const Map& map) {
    const AmaxOrNan largest{.keeps_nan = to.out.dtype == DType::int8};  // which has no code for it
    const bool token = to.token_scale != nullptr;
    float scale = static_scale(to), amax = 0.0f;
#pragma unroll 1
    for (int pass = token ? 0 : 1; pass < 2; ++pass) {
        row.each_chunk([&] {
            if (pass == 0 || !token || !row.is_whole()) map();
            if (pass == 1) return store_chunk(row, to, groups, scale);
            row.each_beside([&](const OctetPlace& place, const float (&octet)[kOctet]) {
#pragma unroll
                for (int i = 0; i < kOctet; ++i) {
                    if (place.has(i)) amax = largest(amax, fabsf(octet[i]));
                }
            });
        });
        if (pass == 0) scale = store_token_scale(row, group, to, amax, largest);
    }
}

// Threads of a block that a row kernel is compiled for.
constexpr int row_bound(int vectors, RowForm form) { return weft::detail::row_threads(vectors, form); }
// And how many blocks of so many an SM is to have room for: what its registers allow, as plans count on.
constexpr int row_blocks(int vectors, RowForm form) {
    return 65536 / (weft::detail::row_registers(vectors, form) * row_bound(vectors, form));
}

}  // namespace weft::inline WEFT_TARGET::kit
