// The skeleton of row kernels: load a row, take its statistics, map it, store it. A kernel is a short body of
// these phases; what varies at run time is a field of a plain struct, so variants are no copies:
//
//   load   Row::load(RowInput): plain, or residual + gate · x, whose rounded sum is stored on the way.
//   sum    Row::sum, Group::reduce: any statistic, in as many passes as it likes: the row is held.
//   map    a function of (slot, index, values). Its operands (weights) are RowSlices, which are loaded early.
//   store  store_row(RowOutput) of kit/row_store.cuh: 16 bits, fp32, or fp8 with a static scale or one a row.
//
// A kernel is compiled for a RowForm. Here are the uniform ones, which production calls: all that is read is stored
// alike, and a thread's loads are all on their way before the first is needed. Where only the operands beside the row are
// not stored so, the row itself is loaded like this and they are SideSlices. Where the row is not stored alike itself, or is
// no whole vectors, it is an AnyRow (kit/any_row.cuh). What is left takes the op's mixed kernels (kit/mixed_row.cuh).
//
// A row is dealt to the threads of a Group in turn, one vector each: slot v of thread t is vector v·size + t.
#pragma once

#include "kit/ptx/pdl.cuh"
#include "kit/side_slice.cuh"

namespace weft::inline WEFT_TARGET::kit {

// What a row is made of: x, or round(residual + gate · x), which goes to residual_out too where that is present. An
// absent gate is 1.
struct RowInput {
    bool keep = false;  // L2 keeps x and residual after all else (L2Policy)
    RowOperand x{}, residual{}, residual_out{}, gate{};
};

// Whether a thread of so many vectors finds where they lie before it waits for the kernel before. More of them are for many
// rows, most of whose blocks have nothing to wait for, and the addresses would take registers.
constexpr bool finds_early(int vectors) { return vectors <= 2; }

// A thread's part of the row that a uniform kernel works on: V vectors of N elements of type T.
template <class T, int N, int V, class Form>
class Row {
   public:
    static constexpr RowForm kForm = Form::kForm;
    static constexpr int kWidth = N, kVectors = V, kPiece = N;
    static_assert(kForm.uniform && V > 0);

    template <GroupScope kScope>
    __device__ __forceinline__ Row(const Group<kScope>& group, const RowShape& shape,
                                   const RowPlaces* places = nullptr)
        : part(group, shape, places, true) {}

    // The first that a kernel does in memory. meanwhile() is called while what is loaded is on its way; where a residual
    // fills the registers, once it is added.
    template <class Meanwhile>
    __device__ __forceinline__ void load(const RowInput& in, Meanwhile meanwhile) {
        // Known where the form says what is there, and not only what may be.
        constexpr bool kKnown = !fills_registers(V) && !kForm.beside && !kForm.wide && !kForm.modulated;
        const bool sum = kForm.residual && (kKnown || in.residual.data != nullptr);
        RowSlice<T, N, V> residual;
        SideSlice<kForm.beside ? V : 1> gate;
        const L2Policy policy = l2_policy(in.keep);
        const bool gated = in.gate.data != nullptr;
        if constexpr (!finds_early(V)) begin_memory();
        const T* const x_from = x_.find(part, in.x);
        const T* const residual_from = sum ? residual.find(part, in.residual) : nullptr;
        if constexpr (finds_early(V)) begin_memory(x_from, residual_from);
        x_.load_from(x_from, part, policy);
        if (sum) residual.load_from(residual_from, part, policy);
        if (kForm.beside && sum && gated) gate.load_or(1.0f, part, in.gate);
        part.at.ask(part.shape);
        if (kRoom) meanwhile();
        if (sum) {
            if (gated) [[unlikely]] {
                add<true>(in, residual, gate);
            } else {
                add<false>(in, residual, gate);
            }
        }
        if (!kRoom) meanwhile();
    }

    // use(slot, index, values) for each vector of the thread.
    template <class F>
    __device__ __forceinline__ void each(F use) const {
        part.template each<N, V>([&](int v, int index) {
            float x[N];
            x_.get(v, x);
            use(v, index, x);
        });
    }

    // The thread's part of the sum of f(x) over the row: two chains of additions, for latency and for
    // accuracy.
    template <class F>
    __device__ __forceinline__ float sum(F f) const {
        float even = 0, odd = 0;
        each([&](int, int, const float (&x)[N]) {
#pragma unroll
            for (int i = 0; i < N; ++i) (i % 2 == 0 ? even : odd) += f(x[i]);
        });
        return even + odd;
    }

    RowPart part;

   private:
    static constexpr bool kRoom = V == 1 || V == 2;  // for more beside the row

    // Where the sums go that residual_out is given; null where it is absent.
    __device__ __forceinline__ T* sums(const RowInput& in) const {
        return in.residual_out.data == nullptr ? nullptr : part.template origin<N, T>(in.residual_out);
    }
    // x becomes the rounded sum of x · gate and r, which goes to residual_out too. A gate of T is read where it is used: most
    // often it is a row that many share, and comes from a cache.
    template <bool kGate, class Side>
    __device__ __forceinline__ void add(const RowInput& in, const RowSlice<T, N, V>& residual, Side& side) {
        T* const to = sums(in);
        const T* gate = kGate && !kForm.beside ? part.template origin<N, const T>(in.gate) : nullptr;
        if constexpr (kGate && kForm.beside) side.widen(in.gate);
        part.template each<N, V>([&](int v, int index) {
            float x[N], r[N], g[N];
            x_.get(v, x);
            residual.get(v, r);
            if constexpr (kGate && !kForm.beside) to_floats(load_aligned<N>(gate + index), g);
#pragma unroll
            for (int i = 0; i < N; ++i) {
                if constexpr (kGate && kForm.beside) g[i] = side.at[v][i];
                x[i] = fmaf(x[i], kGate ? g[i] : 1.0f, r[i]);
            }
            const Vec<T, N> sum = from_floats<T>(x);
            if (to != nullptr) store_aligned(to + index, sum);
            x_.put(v, as_words(sum));
        });
    }

    RowSlice<T, N, V> x_;
};

}  // namespace weft::inline WEFT_TARGET::kit
