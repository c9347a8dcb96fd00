// Elementwise ops over rows with operands of other rows: out = (x + bias) · (offset + scale) + shift.
#pragma once

#include "kit/elementwise.cuh"
#include "kit/row_operand.cuh"

namespace weft::inline WEFT_TARGET::kit {

inline constexpr int kAffineWidth = 8;  // elements of a vector: 16 bytes of a 16-bit input

// Absent operands change nothing. `eager`: every step is rounded to out's dtype, and none is contracted with another.
struct Affine {
    RowShape shape{};
    RowOperand x{}, bias{}, scale{}, shift{}, out{};
    float offset = 0;
    bool eager = false;
    bool keep = false;  // L2 keeps x and shift after all else (L2Policy)
};
// Where an operand may be of any dtype, or of scattered rows.
struct MixedAffineRows : Affine {
    RowPlaces places{};
};
template <class T>
using AffineOf = std::conditional_t<std::is_same_v<T, Any>, MixedAffineRows, Affine>;

// A vector of an operand of any dtype: first as it lies in memory, so that the loads of several operands are on their
// way together; then as fp32.
class RawVector {
   public:
    static constexpr int N = kAffineWidth;

    __device__ __forceinline__ void load(const MixedAffineRows& p, const RowOperand& from, const RunRow& row,
                                         const PartVector& at) {
        if (from.data == nullptr) return;
        const std::int64_t begin = row.offset(p.shape, &p.places, from);
        if (from.dtype == DType::fp32) {
            load_as<float>(from, begin, at);
        } else {
            load_as<bf16>(from, begin, at);  // or fp16: what counts here is the size
        }
    }
    __device__ __forceinline__ void get(const RowOperand& from, float (&to)[N]) const {
        with_wide_type(from.dtype, [&](auto* type) {
            using T = std::remove_pointer_t<decltype(type)>;
            Words<T, N> words;
            memcpy(&words, &raw_, sizeof(words));
            to_floats(as_vector<T, N>(words), to);
        });
    }

   private:
    template <class T>
    __device__ __forceinline__ void load_as(const RowOperand& from, std::int64_t begin,
                                            const PartVector& at) {
        const T* row = static_cast<const T*>(from.data) + begin;
        Words<T, N> words;
        if (from.single) {
            Vec<T, N> vector;
            const T one = *row;
#pragma unroll
            for (int i = 0; i < N; ++i) vector[i] = one;
            words = words_of_elements(vector);
        } else {
            words = load_vector_words<N>(row + at.column, at.count, from.aligned);
        }
        memcpy(&raw_, &words, sizeof(words));
    }

    Words<float, N> raw_;
};

// The same where all operands are stored as T and have whole vectors.
template <class T>
class KnownVector {
   public:
    static constexpr int N = kAffineWidth;

    // `policy`: none or an L2Policy.
    template <class... Policy>
    __device__ __forceinline__ void load(const Affine& p, const RowOperand& from, const RunRow& row,
                                         const WholeVector& at, Policy... policy) {
        if (from.data == nullptr) return;
        const T* begin = static_cast<const T*>(from.data) + row.offset(p.shape, nullptr, from);
        words_ = load_words<N>(begin + std::int64_t{at.vector} * N, policy...);
    }
    __device__ __forceinline__ void get(const RowOperand&, float (&to)[N]) const {
        to_floats(as_vector<T, N>(words_), to);
    }

   private:
    Words<T, N> words_;
};

template <class T>
__device__ __forceinline__ void round_all_through(float (&values)[kAffineWidth]) {
#pragma unroll
    for (float& value : values) value = round_through<T>(value);
}

// Of one vector, from operands that are all on their way. `round(y)` makes of y's elements what out would store.
template <class Vector, class Round>
__device__ __forceinline__ void affine_vector(const Affine& p, const Vector& x, const Vector& bias,
                                              const Vector& scale, const Vector& shift, Round round,
                                              float (&y)[kAffineWidth]) {
    float other[kAffineWidth];
    const auto step = [&](const RowOperand& operand, const Vector& vector, auto combine) {
        if (operand.data == nullptr) return;
        vector.get(operand, other);
#pragma unroll
        for (int i = 0; i < kAffineWidth; ++i) y[i] = combine(y[i], other[i]);
        if (p.eager) round(y);
    };
    x.get(p.x, y);
    step(p.bias, bias, [](float a, float b) { return __fadd_rn(a, b); });
    if (p.scale.data != nullptr) {
        scale.get(p.scale, other);
        if (p.offset != 0.0f) {
#pragma unroll
            for (float& factor : other) factor = __fadd_rn(p.offset, factor);
            if (p.eager) round(other);
        }
#pragma unroll
        for (int i = 0; i < kAffineWidth; ++i) y[i] = __fmul_rn(y[i], other[i]);
        if (p.eager) round(y);
    }
    step(p.shift, shift, [](float a, float b) { return __fadd_rn(a, b); });
}

// Blocks of 256 threads that an SM is to have room for: the blocks of the kernel that comes next as well, which start while
// the last of this one's still store.
template <class T>
constexpr int affine_blocks() {
    return std::is_same_v<T, Any> ? 3 : 8;
}

// Where all operands are stored as T, in whole vectors.
template <class T>
__device__ __forceinline__ void affine_known(const Affine& p, const RowTiles& tiles) {
    for_each_vector<kAffineWidth, T>(tiles, p.out.dtype, [&](T*, const WholeVector& at) {
        KnownVector<T> x, bias, scale, shift;
        const L2Policy policy = l2_policy(p.keep);
        const RunRow row(p.shape, at.row, true);
        x.load(p, p.x, row, at, policy);
        shift.load(p, p.shift, row, at, policy);
        scale.load(p, p.scale, row, at);
        bias.load(p, p.bias, row, at);
        float y[kAffineWidth];
        affine_vector(p, x, bias, scale, shift, round_all_through<T>, y);
        T* out = static_cast<T*>(p.out.data) + row.offset(p.shape, nullptr, p.out);
        store_aligned(out + std::int64_t{at.vector} * kAffineWidth, from_floats<T>(y));
    });
}
// Where dtypes, and whether vectors are whole, are found out where it runs.
__device__ __forceinline__ void affine_mixed(const MixedAffineRows& p, const RowTiles& tiles) {
    dependency_wait();
    dependents_launch();
    for_each_tile<kAffineWidth, 1>(tiles, [&](std::int64_t of, std::int64_t column, std::int64_t) {
        const PartVector at{of, column, left<kAffineWidth>(tiles.dim, column)};
        RawVector x, bias, scale, shift;
        const RunRow row(p.shape, at.row, false);
        x.load(p, p.x, row, at);
        shift.load(p, p.shift, row, at);
        scale.load(p, p.scale, row, at);
        bias.load(p, p.bias, row, at);
        float y[kAffineWidth];
        const auto round = [&](float (&values)[kAffineWidth]) {
            with_wide_type(p.out.dtype, [&](auto* type) {
                round_all_through<std::remove_pointer_t<decltype(type)>>(values);
            });
        };
        affine_vector(p, x, bias, scale, shift, round, y);
        const std::int64_t to = row.offset(p.shape, &p.places, p.out) + at.column;
        with_wide_type(p.out.dtype, [&](auto* type) {
            using Out = std::remove_pointer_t<decltype(type)>;
            store_vector(static_cast<Out*>(p.out.data) + to, from_floats<Out>(y), at.count, p.out.aligned);
        });
    });
}

// What     out = (x + bias) · (offset + scale) + shift, in fp32, rounded once (eager: after each step)
// Mapping  a thread owns one vector of 8 elements of a row (kit/elementwise.cuh); which row of an operand belongs to it
//          are numbers (kit/row_operand.cuh)
// Traffic  every operand once (bound by memory); those that rows share come from the caches after the first rows
// Needs    out may be the memory of x, bias, scale or shift element for element: a thread reads its vectors before it
//          writes there. T, where it is not Any, is the dtype of all operands, whose vectors are whole
template <class T>
__device__ __forceinline__ void affine_rows(const AffineOf<T>& p, const RowTiles& tiles) {
    if constexpr (std::is_same_v<T, Any>) {
        affine_mixed(p, tiles);
    } else {
        affine_known<T>(p, tiles);
    }
}

}  // namespace weft::inline WEFT_TARGET::kit
