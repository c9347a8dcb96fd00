// A row that is not held: each pass reads it again. For kernels that owe another library's bits, whose order of
// elements is given (rounding=eager).
#pragma once

#include "kit/row.cuh"

namespace weft::inline WEFT_TARGET::kit {

// N elements of a row from `index` on, widened; `fill` where the operand is absent, its one element where it has one.
template <int N>
__device__ __forceinline__ void load_floats(const RowOperand& from, const RowPart& part, std::int64_t index,
                                            float fill, float (&to)[N]) {
    if (from.single) {
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
// The same of a row that is there and stored as T: without a choice where it runs, which every pass would hold many times.
template <class T, int N>
__device__ __forceinline__ void load_row_floats(const RowOperand& from, const RowPart& part,
                                                std::int64_t index, float (&to)[N]) {
    to_floats(load_aligned<N>(part.begin<const T>(from) + index), to);
}
// The other way, rounded once.
template <class T, int N>
__device__ __forceinline__ void store_row_floats(const RowOperand& to, const RowPart& part,
                                                 std::int64_t index, const float (&from)[N]) {
    store_aligned(part.begin<T>(to) + index, from_floats<T>(from));
}

// Vectors of N elements, the row's first for thread 0, the next for thread 1; T is what x, the residual and
// their sum are stored as, which rounds as PyTorch's operators do.
template <class T, int N>
class StreamedRow {
   public:
    RowPart part;

    template <GroupScope kScope>
    __device__ __forceinline__ StreamedRow(const Group<kScope>& group, const RowShape& shape,
                                           const RowPlaces& places, const RowInput& in)
        : part(group, shape, &places, false), in_(in) {
        part.at.ask(shape);
    }

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
        each([&](std::int64_t index, const float (&x)[N]) {
            store_row_floats<T>(in_.residual_out, part, index, x);
        });
        summed_ = true;
    }

   private:
    __device__ __forceinline__ void get(std::int64_t index, float (&x)[N]) const {
        load_row_floats<T>(summed_ ? in_.residual_out : in_.x, part, index, x);
        if (summed_ || in_.residual.data == nullptr) return;
        float r[N], g[N];
        load_row_floats<T>(in_.residual, part, index, r);
        load_floats(in_.gate, part, index, 1.0f, g);
        const bool wide = in_.gate.dtype == DType::fp32;  // PyTorch's product is then in fp32
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const float product = __fmul_rn(x[i], g[i]);
            x[i] = round_through<T>(__fadd_rn(wide ? product : round_through<T>(product), r[i]));
        }
    }

    const RowInput& in_;
    bool summed_ = false;
};

}  // namespace weft::inline WEFT_TARGET::kit
