// What elementwise kernels share: instantiations for known dtypes and for any, over tiles of rows (kit/row_tiles.cuh).
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "kit/divisor.cuh"
#include "kit/ptx/pdl.cuh"
#include "kit/vector_rows.cuh"

namespace weft::inline WEFT_TARGET::kit {

// Kernels are templates over their dtypes. For the pairs that production runs, and operands of whole vectors,
// there is an instantiation in which everything is known: its code is straight, its loads are in flight
// together. All else takes an instantiation whose output has the type Any: its dtype is found out where it is stored, and
// vectors may be parts.
struct Any {};
// Outputs of which so much is known, and the rest found out where a vector is stored: of 16 bits or fp32, of eight bits.
struct Wide {};
struct Narrow {};
// A thread's elements of an operand, stored as T; or, where T is Any, as fp32 or 16 bits: as they come from memory, so that
// those of several operands are on their way together, and then in fp32.
template <class T, int N>
class Fetched {
   public:
    template <class At>
    __device__ __forceinline__ void load(const VectorRows& from, const At& at) {
        held_ = as_words(kit::load<T, N>(from, at));
    }
    __device__ __forceinline__ void widen(const VectorRows&, float (&values)[N]) const {
        to_floats(as_vector<T, N>(held_), values);
    }

   private:
    Words<T, N> held_{};
};
template <int N>
class Fetched<Any, N> {
   public:
    __device__ __forceinline__ void load(const VectorRows& from, const PartVector& at) {
        from.dtype == DType::fp32 ? load_as<std::uint32_t>(from, at) : load_as<std::uint16_t>(from, at);
    }
    __device__ __forceinline__ void widen(const VectorRows& from, float (&values)[N]) const {
        with_wide_type(from.dtype, [&](auto* type) {
            using T = std::remove_pointer_t<decltype(type)>;
            Words<T, N> words;
            memcpy(&words, &held_, sizeof(words));
            to_floats(as_vector<T, N>(words), values);
        });
    }

   private:
    template <class Stored>
    __device__ __forceinline__ void load_as(const VectorRows& from, const PartVector& at) {
        const Stored* row = static_cast<const Stored*>(from.data) + at.row * from.stride;
        const Words<Stored, N> words = load_vector_words<N>(row + at.column, at.count, from.aligned);
        memcpy(&held_, &words, sizeof(words));
    }

    Words<float, N> held_{};
};
// A whole vector of parameters that all rows share, which are stored as T or as fp32. They are widened where they are asked
// for, and waited for: ask for them last.
template <class T, int N>
class Shared {
   public:
    template <class Operand>
    __device__ __forceinline__ void load(const Operand& from, const WholeVector& at) {
        if constexpr (std::is_same_v<T, float>) {
            load_as<float>(from.data, at);
        } else {
            with_one_of<T, float>(from.dtype, [&](auto* type) {
                load_as<std::remove_pointer_t<decltype(type)>>(from.data, at);
            });
        }
    }
    template <class Operand>
    __device__ __forceinline__ void widen(const Operand&, float (&values)[N]) const {
        memcpy(values, held_, sizeof(held_));
    }

   private:
    template <class Stored>
    __device__ __forceinline__ void load_as(const void* data, const WholeVector& at) {
        to_floats(load_aligned<N>(static_cast<const Stored*>(data) + std::int64_t{at.vector} * N), held_);
    }

    float held_[N] = {};
};
template <int N>
class Shared<Any, N> : public Fetched<Any, N> {};
// Host: whether it may hold what lies beside rows stored as `row`.
inline bool is_shared(const VectorRows& of, DType row) {
    return of.data == nullptr || of.dtype == row || of.dtype == DType::fp32;
}
// A thread's elements, widened.
template <class T, int N, class At>
__device__ __forceinline__ void load_row(const VectorRows& in, const At& at, float (&values)[N]) {
    Fetched<T, N> held;
    held.load(in, at);
    held.widen(in, values);
}
// `values` as T, or, where that is Any, Wide or Narrow, as what the operand says.
template <class T, int N, class At>
__device__ __forceinline__ void store_row(const VectorRows& out, const At& at, const float (&values)[N]) {
    const auto store_as = [&](auto* type) { store<std::remove_pointer_t<decltype(type)>>(out, at, values); };
    if constexpr (std::is_same_v<T, Any>) {
        with_type(out.dtype, store_as);
    } else if constexpr (std::is_same_v<T, Wide>) {
        with_wide_type(out.dtype, store_as);
    } else if constexpr (std::is_same_v<T, Narrow>) {
        with_one_of<e4m3, e5m2, std::int8_t>(out.dtype, store_as);
    } else {
        store<T>(out, at, values);
    }
}
template <class In_, class Out_ = In_>
struct Types {
    using In = In_;
    using Out = Out_;
};

// Host: calls use(Types<In, Out>()) with that of the pairs which `in` and `out` are, if there is one.
template <class... Pairs, class Use>
bool with_types(DType in, DType out, Use use) {
    return ((kDTypeOf<typename Pairs::In> == in && kDTypeOf<typename Pairs::Out> == out &&
             (use(Pairs()), true)) ||
            ...);
}

// Host: calls use(Types<In, Wide>()), or of codes use(Types<In, Narrow>()), with that of Ins which `in` is, if there is one.
template <class... Ins, class Use>
bool with_wide(DType in, DType out, Use use) {
    const bool wide = out == DType::bf16 || out == DType::fp16 || out == DType::fp32;
    return wide && ((kDTypeOf<Ins> == in && (use(Types<Ins, Wide>()), true)) || ...);
}
template <class... Ins, class Use>
bool with_narrow(DType in, DType out, Use use) {
    const bool narrow = out == DType::fp8_e4m3 || out == DType::fp8_e5m2 || out == DType::int8;
    return narrow && ((kDTypeOf<Ins> == in && (use(Types<Ins, Narrow>()), true)) || ...);
}

// Host: whether all vectors of the tiles are whole, in every operand, and each has a thread.
inline bool whole_vectors(const RowTiles& tiles, int width, std::initializer_list<VectorRows> operands) {
    const std::int64_t rows_a_block = tiles.threads >> tiles.lanes_log2;
    return tiles.dim == std::int64_t{width} * tiles.vectors && tiles.rows >> 31 == 0 &&
           std::int64_t{tiles.column_blocks} << tiles.lanes_log2 >= tiles.vectors &&
           std::int64_t{tiles.row_blocks} * tiles.layers * rows_a_block >= tiles.rows &&
           std::all_of(operands.begin(), operands.end(), [](const VectorRows& o) {
               return o.data == nullptr || (o.aligned && o.stride >= 0 && o.stride < 1 << 29);
           });
}

// Calls body(the thread's vector) for all vectors that the thread loops over, of which the last of a row may be a part.
template <int kWidth, class Body>
__device__ __forceinline__ void for_each_part(const RowTiles& tiles, Body body,
                                              ColumnBlocks blocks = ColumnBlocks::all()) {
    for_each_tile<kWidth, 1>(
        tiles,
        [&](std::int64_t row, std::int64_t column, std::int64_t) {
            body(PartVector{row, column, left<kWidth>(tiles.dim, column)});
        },
        blocks);
}

// Waits for the kernels before, lets the next one start, then calls body(the thread's vector): once, or, where Out is Any,
// as for_each_part does. The tiles' blocks side by side may be the first of more.
template <int kWidth, class Out, class Body>
__device__ __forceinline__ void for_each_vector(const RowTiles& tiles, Body body) {
    if constexpr (std::is_same_v<Out, Any>) {
        dependency_wait();
        dependents_launch();
        for_each_part<kWidth>(tiles, body, {blockIdx.x, tiles.column_blocks});
    } else {
        const unsigned block_row = blockIdx.z * gridDim.y + blockIdx.y, lanes = 1u << tiles.lanes_log2;
        const WholeVector at{block_row * (blockDim.x >> tiles.lanes_log2) + (threadIdx.x >> tiles.lanes_log2),
                             blockIdx.x * lanes + (threadIdx.x & (lanes - 1))};
        dependency_wait();
        dependents_launch();
        if (at.row < static_cast<unsigned>(tiles.rows) && at.vector < tiles.vectors) body(at);
    }
}

// Elements [0, count) of a vector at element `index` of an array of fp32, bf16 or fp16, widened; `fill` where there is no
// array.
template <int N>
__device__ __forceinline__ void load_floats_or(float fill, DType dtype, const void* data, std::int64_t index,
                                               float (&values)[N], int count, bool aligned) {
    if (data == nullptr) {
#pragma unroll
        for (float& value : values) value = fill;
        return;
    }
    with_wide_type(dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        to_floats(load_vector<N>(static_cast<const T*>(data) + index, count, aligned), values);
    });
}

// Elements [0, count) of `values` as `dtype`, at element `index` of an array.
template <int N>
__device__ __forceinline__ void store_floats(DType dtype, void* data, std::int64_t index,
                                             const float (&values)[N], int count, bool aligned) {
    with_type(dtype, [&](auto* type) {
        using Out = std::remove_pointer_t<decltype(type)>;
        store_vector(static_cast<Out*>(data) + index, from_floats<Out>(values), count, aligned);
    });
}

}  // namespace weft::inline WEFT_TARGET::kit
