// The skeleton of row kernels: load a row, take its statistics, map it, store it. A kernel is a short body of
// these phases; what varies at run time is a field of a plain struct, so variants are no copies:
//
//   load   Row::load(RowInput): plain, or residual + gate · x, whose rounded sum is stored on the way.
//   sum    Row::sum, Group::reduce: any statistic, in as many passes as it likes: the row is held.
//   map    a function of (slot, index, values). Its operands (weights, modulation) are RowOperands: RowSlices that are
//          loaded early, or LateOperands of any dtype.
//   store  store_row(RowOutput) of kit/row_store.cuh: fp32, 16 bits, fewer bits with a static scale, one a row or
//          one for each group of columns.
//
// A kernel is compiled for a RowForm. In a uniform one, which production calls, all that is read is stored alike, and
// a thread's loads are all on their way before the first is needed. In a mixed one each operand may have a dtype of its
// own, which is asked once for a run of vectors.
//
// A row is dealt to the threads of a Group in turn, one vector each: slot v of thread t is vector v·size + t.
// Vectors have N elements: 16 bytes, or 1 element for a launch in which some row has a tail or begins
// unaligned; so there is no tail anywhere, and single elements of neighbouring lanes still coalesce.
#pragma once

#include "kit/row_operand.cuh"

namespace weft::inline WEFT_TARGET::kit {

// N elements of a row from `index` on, widened.
template <int N>
__device__ __forceinline__ void load_floats(const RowOperand& from, const RowPart& part, std::int64_t index,
                                            float (&to)[N]) {
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

// What a row is made of: x, or round(residual + gate · x), which goes to residual_out too where that is present. An
// absent gate is 1.
struct RowInput {
    RowOperand x{}, residual{}, residual_out{}, gate{};
    bool keep = false;  // L2 keeps x and residual after all else (L2Policy)
};

// use(slot, index, values) for each vector of the thread; before(index) before each run of Row::kRun.
template <class Row, class F, class Before>
__device__ __forceinline__ void each_vector(const Row& row, F use, Before before) {
    const auto with_values = [&](int v, typename Row::Index index) {
        float x[Row::kWidth];
        row.get(v, index, x);
        use(v, index, x);
    };
    row.part.template each<Row::kWidth, Row::kVectors, Row::kRun, Row::kUnroll>(with_values, before);
}

// use(slot, index, values, there) for every slot, all threads of the group together: zeros where it is not there.
template <class Row, class F, class Before>
__device__ __forceinline__ void each_slot(const Row& row, F use, Before before) {
    const auto with_values = [&](int v, typename Row::Index index) {
        float x[Row::kWidth] = {};
        const bool there = index < row.part.dim;
        if (there) row.get(v, index, x);
        use(v, index, x, there);
    };
    row.part.template each_slot<Row::kWidth, Row::kVectors, Row::kRun>(with_values, before);
}

// A thread's part of the row that a kernel works on; T is what its elements are stored as: the residual's
// dtype if there is one (residual_out has the same), else x's.
template <class T, int N, int V, class Form, int kUnrolled = 1>
class Row {
   public:
    static constexpr RowForm kForm = Form::kForm;
    static constexpr int kUnroll = kUnrolled;  // of a row that is not held
    static constexpr int kWidth = N, kVectors = V, kRun = kForm.uniform ? 1 : kRowRun<N, V>;
    static_assert(!kForm.uniform || V > 0, "uniform rows are held in registers");
    using Index = RowIndex<V>;
    using Late = LateOperand<N, kRun>;

    template <GroupScope kScope>
    __device__ __forceinline__ Row(const Group<kScope>& group, const RowShape& shape, const RowPlaces* places)
        : part(group, shape, places) {}

    // meanwhile() is called while what is loaded is on its way; where a residual fills the registers, once it is added.
    template <class Meanwhile>
    __device__ __forceinline__ void load(const RowInput& in, Meanwhile meanwhile) {
        in_ = &in;
        // Known where the form says what is there, and not only what may be.
        constexpr bool kKnown = kForm.uniform && !fills_registers(V);
        const bool sum = kForm.residual && (kKnown || in.residual.data != nullptr);
        if constexpr (kForm.uniform) {
            Residual residual;
            const L2Policy policy = l2_policy(in.keep);
            x_.load(part, in.x, policy);
            if (sum) residual.load(part, in.residual, policy);
            if (kRoom || !sum) meanwhile();
            if (sum) {
                if (in.gate.data != nullptr) [[unlikely]] {
                    add<true>(in, residual);
                } else {
                    add<false>(in, residual);
                }
            }
            if (!kRoom && sum) meanwhile();
        } else {
            if (sum) {
                add_late(in);
            } else if constexpr (V > 0) {
                x_.load(part, in.x);
            }
            meanwhile();
        }
    }

    template <class F>
    __device__ __forceinline__ void each(F use) const {
        each_vector(*this, use, [](Index) {});
    }

    // The thread's part of the sum of f(x) over the row: two chains of additions, for latency and for
    // accuracy.
    template <class F>
    __device__ __forceinline__ float sum(F f) const {
        float even = 0, odd = 0;
        each([&](int v, std::int64_t, const float (&x)[N]) {
#pragma unroll
            for (int i = 0; i < N; ++i) {
                float& total = (N == 1 ? v : i) % 2 == 0 ? even : odd;
                total += f(x[i]);
            }
        });
        return even + odd;
    }

    // The thread's vector in slot v.
    __device__ __forceinline__ void get(int v, std::int64_t index, float (&x)[N]) const {
        if constexpr (V > 0) return x_.get(v, x);
        if (in_->residual.data == nullptr) return load_floats(in_->x, part, index, x);
        if (in_->residual_out.data != nullptr)
            return load_floats(in_->residual_out, part, index, x);  // what this thread wrote itself
        float r[N], g[N];
        load_floats(in_->x, part, index, x);
        load_floats(in_->residual, part, index, r);
        Late gate(part, in_->gate, 1.0f);
        gate.fetch(part, index);
        gate.get(0, g);
#pragma unroll
        for (int i = 0; i < N; ++i) x[i] = round_through<T>(fmaf(x[i], g[i], r[i]));
    }

    const RowPart part;

   private:
    static constexpr bool kRoom = V == 1 || V == 2;  // for more beside the row
    using Residual = RowSlice<T, N, kForm.uniform ? V : 1>;

    // Where the sums go that residual_out is given; null where it is absent.
    __device__ __forceinline__ T* sums(const RowInput& in) const {
        return in.residual_out.data == nullptr
                   ? nullptr
                   : part.template origin<N, V>(part.template begin<T>(in.residual_out));
    }
    // x becomes the rounded sum of x · gate and r, which goes to residual_out too.
    __device__ __forceinline__ static Words<T, N> sum_of(T* to, Index index, const float (&x)[N],
                                                         const float (&r)[N], const float (&gate)[N]) {
        float total[N];
#pragma unroll
        for (int i = 0; i < N; ++i) total[i] = fmaf(x[i], gate[i], r[i]);
        const Vec<T, N> sum = from_floats<T>(total);
        if (to != nullptr) store_aligned(to + index, sum);
        return as_words(sum);
    }
    // A gate is read where it is used: most often it is a row that many share, and comes from a cache.
    template <bool kGate>
    __device__ __forceinline__ void add(const RowInput& in, const Residual& residual) {
        T* const to = sums(in);
        const T* gate = kGate ? part.template origin<N, V>(part.template begin<const T>(in.gate)) : nullptr;
        part.template each<N, V>([&](int v, Index index) {
            float x[N], r[N], g[N];
            x_.get(v, x);
            residual.get(v, r);
            if constexpr (kGate) {
                to_floats(load_aligned<N>(gate + index), g);
            } else {
#pragma unroll
                for (float& one : g) one = 1.0f;
            }
            x_.put(v, sum_of(to, index, x, r, g));
        });
    }
    __device__ __forceinline__ void add_late(const RowInput& in) {
        T* const to = sums(in);
        Late x(part, in.x), residual(part, in.residual), gate(part, in.gate, 1.0f);
        part.template each<N, V, kRun>(
            [&](int v, Index index) {
                float values[N], r[N], g[N];
                x.get(v % kRun, values);
                residual.get(v % kRun, r);
                gate.get(v % kRun, g);
                const Words<T, N> sum = sum_of(to, index, values, r, g);
                if constexpr (V > 0) x_.put(v, sum);
            },
            [&](Index index) {
                x.fetch(part, index);
                residual.fetch(part, index);
                gate.fetch(part, index);
            });
    }

    RowSlice<T, N, V == kStreamedRow ? 1 : V> x_;
    const RowInput* in_;
};

}  // namespace weft::inline WEFT_TARGET::kit
