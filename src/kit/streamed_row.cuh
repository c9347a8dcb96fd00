// A row that is not held: each pass reads it again. For kernels that owe another library's bits, whose order of
// elements is given (rounding=eager).
#pragma once

#include "kit/row.cuh"

namespace weft::inline WEFT_TARGET::kit {

// N elements of a row from `index` on, widened; `fill` where the operand is absent, its one element where it has one.
template <int N>
__device__ __forceinline__ void load_floats(const RowOperand& from, const RowPart& part, std::int64_t index,
                                            float fill, float (&to)[N]) {
    if (from.data == nullptr || from.single) {
        if (from.data != nullptr) fill = load_as(from.dtype, from.data, part.offset(from));
#pragma unroll
        for (float& element : to) element = fill;
        return;
    }
    with_wide_type(from.dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        to_floats(load_aligned<N>(part.begin<const T>(from) + index), to);
    });
}
// The other way, rounded once.
template <int N>
__device__ __forceinline__ void store_floats(const RowOperand& to, const RowPart& part, std::int64_t index,
                                             const float (&from)[N]) {
    with_type(to.dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        store_aligned(part.begin<T>(to) + index, from_floats<T>(from));
    });
}

// Vectors of N elements, the row's first for thread 0, the next for thread 1; T is what the row's elements are stored as:
// the residual's dtype if there is one, else x's.
template <class T, int N>
class StreamedRow {
   public:
    const RowPart part;

    template <GroupScope kScope>
    __device__ __forceinline__ StreamedRow(const Group<kScope>& group, const RowShape& shape,
                                           const RowPlaces& places, const RowInput& in)
        : part(group, shape, &places), in_(in) {}

    // use(index, values) for each vector of the thread.
    template <class F>
    __device__ __forceinline__ void each(F use) const {
        const std::int64_t step = std::int64_t{part.step} * N;
#pragma unroll 4
        for (std::int64_t index = std::int64_t{part.first} * N; index < part.dim; index += step) {
            float x[N];
            get(index, x);
            use(index, x);
        }
    }
    // Before all passes: what residual_out is to receive goes there, and comes from there from now on.
    __device__ __forceinline__ void load() {
        if (in_.residual.data == nullptr || in_.residual_out.data == nullptr) return;
        each(
            [&](std::int64_t index, const float (&x)[N]) { store_floats(in_.residual_out, part, index, x); });
        summed_ = true;
    }

   private:
    __device__ __forceinline__ void get(std::int64_t index, float (&x)[N]) const {
        load_floats(summed_ ? in_.residual_out : in_.x, part, index, 0.0f, x);
        if (summed_ || in_.residual.data == nullptr) return;
        float r[N], g[N];
        load_floats(in_.residual, part, index, 0.0f, r);
        load_floats(in_.gate, part, index, 1.0f, g);
#pragma unroll
        for (int i = 0; i < N; ++i) x[i] = round_through<T>(fmaf(x[i], g[i], r[i]));
    }

    const RowInput& in_;
    bool summed_ = false;
};

}  // namespace weft::inline WEFT_TARGET::kit
