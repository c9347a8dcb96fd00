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

    template <class... Policy>
    __device__ __forceinline__ void load(const MixedAffineRows& p, const RowOperand& from, const RunRow& row,
                                         const PartVector& at, Policy...) {
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
        Vec<T, N> vector;
        if (from.single) {
            const T one = *row;
#pragma unroll
            for (int i = 0; i < N; ++i) vector[i] = one;
        } else {
            vector = load_vector<N>(row + at.column, at.count, from.aligned);
        }
        const Words<T, N> words = as_words(vector);
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

// Of one vector, from operands that are all on their way.
// `round(y)` is y as out would store it.
template <class Vector, class Round>
__device__ __forceinline__ void affine_vector(const Affine& p, const Vector& x, const Vector& bias,
                                              const Vector& scale, const Vector& shift, Round round,
                                              float (&y)[kAffineWidth]) {
    float other[kAffineWidth];
    const auto step = [&](const RowOperand& operand, const Vector& vector, auto combine) {
        if (operand.data == nullptr) return;
        vector.get(operand, other);
#pragma unroll
        for (int i = 0; i < kAffineWidth; ++i) {
            y[i] = combine(y[i], other[i]);
            if (p.eager) y[i] = round(y[i]);
        }
    };
    x.get(p.x, y);
    step(p.bias, bias, [](float a, float b) { return __fadd_rn(a, b); });
    step(p.scale, scale, [&](float a, float b) {
        float factor = p.offset == 0.0f ? b : __fadd_rn(p.offset, b);
        if (p.eager) factor = round(factor);
        return __fmul_rn(a, factor);
    });
    step(p.shift, shift, [](float a, float b) { return __fadd_rn(a, b); });
}

// Blocks of 256 threads that an SM is to have room for: the blocks of the kernel that comes next as well, which start while
// the last of this one's still store.
template <class T>
constexpr int affine_blocks() {
    return std::is_same_v<T, Any> ? 2 : 8;
}

// What     out = (x + bias) · (offset + scale) + shift, in fp32, rounded once (eager: after each step)
// Mapping  a thread owns one vector of 8 elements of a row (kit/elementwise.cuh); which row of an operand belongs to it
//          are numbers (kit/row_operand.cuh)
// Traffic  every operand once (bound by memory); those that rows share come from the caches after the first rows
// Needs    out may be the memory of x, bias, scale or shift element for element: a thread reads its vectors before it
//          writes there. T, where it is not Any, is the dtype of all operands, whose vectors are whole
template <class T>
__device__ __forceinline__ void affine_rows(const AffineOf<T>& p, const RowTiles& tiles) {
    using Vector = std::conditional_t<std::is_same_v<T, Any>, RawVector, KnownVector<T>>;
    for_each_vector<kAffineWidth, T>(tiles, p.out.dtype, [&](auto* type, const auto& at) {
        using Out = std::remove_pointer_t<decltype(type)>;
        Vector x, bias, scale, shift;
        const L2Policy policy = l2_policy(p.keep);
        const RunRow row(p.shape, at.row, !std::is_same_v<T, Any>);
        x.load(p, p.x, row, at, policy);
        shift.load(p, p.shift, row, at, policy);
        scale.load(p, p.scale, row, at);
        bias.load(p, p.bias, row, at);
        float y[kAffineWidth];
        affine_vector(p, x, bias, scale, shift, [](float v) { return round_through<Out>(v); }, y);
        const RowPlaces* places = nullptr;
        if constexpr (std::is_same_v<T, Any>) places = &p.places;
        Out* out = static_cast<Out*>(p.out.data) + row.offset(p.shape, places, p.out);
        if constexpr (std::is_same_v<T, Any>) {
            store_vector(out + at.column, from_floats<Out>(y), at.count, p.out.aligned);
        } else {
            store_aligned(out + std::int64_t{at.vector} * kAffineWidth, from_floats<Out>(y));
        }
    });
}

}  // namespace weft::inline WEFT_TARGET::kit
