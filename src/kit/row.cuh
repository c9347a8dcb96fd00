// The skeleton of row kernels: load a row, take its statistics, map it, store it. A kernel is a short body of
// these phases; what varies at run time is a field of a plain struct, so variants are no copies:
//
//   load   Row::load(RowInput): plain, + residual (stored on the way). A gate, a bias or a second source is
//          one more operand of RowInput, added before the rounding.
//   sum    Row::sum, Group::reduce: any statistic, in as many passes as it likes: the row is held.
//   map    a function of (slot, index, values): weight, scale and shift, tanh gates. Its operands are
//          RowOperands with a row number of their own ([D]: stride 0; [B, D]: a token's batch), held as
//          RowSlices.
//   store  store_row(RowOutput) of kit/row_store.cuh: fp32, 16 bits, fp8 with a static scale or one a row. Lanes own
//          neighbouring vectors, so a group of 128 columns (or 16) is a few neighbouring lanes: group scales are a
//          warp_reduce over them. Several outputs are several store_floats of the same mapped values.
//
// A kernel is compiled for a RowForm. In a uniform one, what production calls, dtypes are known and a thread's loads
// are all on their way before the first is needed; what cannot be there costs nothing. Other calls switch on a dtype
// around each vector that they load, and once around the loop that stores.
//
// A row is dealt to the threads of a Group in turn, one vector each: slot v of thread t is vector v·size + t.
// Vectors have N elements: 16 bytes, or 1 element for a launch in which some row has a tail or begins
// unaligned; so there is no tail anywhere, and single elements of neighbouring lanes still coalesce.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "kit/convert.cuh"
#include "kit/launch.h"
#include "kit/ptx/cp_async.cuh"
#include "kit/reduce.cuh"
#include "kit/row_plan.h"
#include "kit/vector.cuh"

namespace weft::inline WEFT_TARGET::kit {

// A tensor as rows; absent where data is null.
struct RowOperand {
    void* data = nullptr;
    std::int64_t stride = 0;  // elements from row to row; 0: one row that all share
    DType dtype = DType::fp32;
};

// N elements of a row from `index` on, widened.
template <int N>
__device__ __forceinline__ void load_floats(const RowOperand& from, std::int64_t row, std::int64_t index,
                                            float (&to)[N]) {
    const std::int64_t offset = row * from.stride + index;
    switch (from.dtype) {
        case DType::bf16: to_floats(load_aligned<N>(static_cast<const bf16*>(from.data) + offset), to); break;
        case DType::fp16: to_floats(load_aligned<N>(static_cast<const half*>(from.data) + offset), to); break;
        default: to_floats(load_aligned<N>(static_cast<const float*>(from.data) + offset), to); break;
    }
}
// The other way, rounded once.
template <int N>
__device__ __forceinline__ void store_floats(const RowOperand& to, std::int64_t row, std::int64_t index,
                                             const float (&from)[N]) {
    const std::int64_t offset = row * to.stride + index;
    with_type(to.dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        store_aligned(static_cast<T*>(to.data) + offset, from_floats<T>(from));
    });
}

// What a kernel is told of its rows. lanes_log2: of lanes that share a warp with others.
struct RowShape {
    std::int64_t rows = 0, dim = 0;
    int lanes = 32, lanes_log2 = 5, cluster = 1;
};

// An element's place in its row: an int, which spares address arithmetic, where V vectors are all that a thread has.
template <int V>
using RowIndex = std::conditional_t<(V > 0), int, std::int64_t>;

// Which row the calling thread works on, and which of its vectors are the thread's. A thread without a row
// has dim 0: it loads and stores nothing but takes part in reductions.
struct RowPart {
    std::int64_t row, dim;
    int first, step;
    bool present;

    template <GroupScope kScope>
    __device__ __forceinline__ RowPart(const Group<kScope>& group, const RowShape& shape) {
        row = static_cast<std::int64_t>(group.clustered() ? blockIdx.x / group.cluster : blockIdx.x);
        if (group.in_warp()) row = row * (blockDim.x >> shape.lanes_log2) + (threadIdx.x >> shape.lanes_log2);
        present = !group.in_warp() || row < shape.rows;
        dim = present ? shape.dim : 0;
        first = group.thread();
        step = group.size();
    }

    // How many of the thread's slots the row reaches.
    template <int N>
    __device__ __forceinline__ int slots() const {
        return (static_cast<int>(dim) / N - first + step - 1) / step;
    }

    // What a thread's indices are counted from: the row's first element. A thread whose registers are full counts from
    // its own first vector: slot v is v · step · N from there for all threads alike, so none keeps V indices.
    template <int N, int V, class T>
    __device__ __forceinline__ T* origin(T* row_begin) const {
        return fills_registers(V) ? row_begin + first * N : row_begin;
    }

    // use(slot, index) for each vector of the thread, V or as many as there are; it lies at origin() + index.
    template <int N, int V, class F>
    __device__ __forceinline__ void each(F use) const {
        if constexpr (fills_registers(V)) {
            const int held = slots<N>();
#pragma unroll
            for (int v = 0; v < V; ++v) {
                if (v < held) use(v, v * step * N);
            }
        } else if constexpr (V > 0) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const int index = (first + v * step) * N;
                if (index < static_cast<int>(dim)) use(v, index);
            }
        } else {
            const std::int64_t stride = std::int64_t{step} * N;
            int v = 0;
#pragma unroll 4
            for (std::int64_t index = std::int64_t{first} * N; index < dim; index += stride) use(v++, index);
        }
    }
};

// The V vectors that a thread holds, as they came from memory: in registers, in its own slots of the dynamic shared
// array, or none.
template <class T, int N, int V>
struct RowHome {
    __device__ __forceinline__ Words<T, N>& at(int v) { return words[v]; }
    __device__ __forceinline__ const Words<T, N>& at(int v) const { return words[v]; }
    Words<T, N> words[V];
};
template <class T, int N>
struct RowHome<T, N, kStreamedRow> {};
template <class T, int N>
struct RowHome<T, N, kSharedRow> {
    __device__ __forceinline__ Words<T, N>& at(int v) const {
        return dynamic_shared<Words<T, N>>()[static_cast<unsigned>(v) * blockDim.x + threadIdx.x];
    }
};

// A thread's part of one operand's row, N elements a vector. Held where V says so and the operand is stored as T, which
// it is where kUniform; else read where it is used. Of V vectors kHeld are held at a time: where these are fewer, what
// has been used makes room (pass).
template <class T, int N, int V, bool kUniform, int kHeld = V>
class RowSlice {
    static_assert(!kUniform || V > 0, "uniform rows are held in registers");

   public:
    // Of an operand that is there. `policy`: none or an L2Policy.
    template <class... Policy>
    __device__ __forceinline__ void load(const RowPart& part, const RowOperand& from, std::int64_t row,
                                         Policy... policy) {
        from_ = &from;
        row_ = row;
        if constexpr (V != kStreamedRow) {
            held_ = kUniform || from.dtype == kDTypeOf<T>;
            if (!held_) return;
            const T* data = part.origin<N, V>(static_cast<const T*>(from.data) + row * from.stride);
            part.each<N, V>([&](int v, RowIndex<V> index) {
                if (kHeld < V && v >= kHeld) return;
                if constexpr (V == kSharedRow && sizeof(Vec<T, N>) == 16) {
                    cp_async_16(&home_.at(v), data + index);
                } else {
                    home_.at(v) = load_words<N>(data + index, policy...);
                }
            });
            if constexpr (V == kSharedRow && sizeof(Vec<T, N>) == 16) {
                cp_async_commit();
                cp_async_wait<0>();  // a thread reads only what it copied itself: no barrier
            }
        }
    }
    // Of one that is `fill` everywhere where it is not.
    __device__ __forceinline__ void load_or(float fill, const RowPart& part, const RowOperand& from,
                                            std::int64_t row) {
        if (from.data != nullptr) return load(part, from, row);
        from_ = &from;
        fill_ = fill;
        if constexpr (V != kStreamedRow) {
            held_ = true;
            Vec<T, N> padding;
#pragma unroll
            for (int i = 0; i < N; ++i) padding[i] = from_float<T>(fill);
            part.each<N, V>([&](int v, RowIndex<V>) { home_.at(place(v)) = as_words(padding); });
        }
    }

    __device__ __forceinline__ void get(int v, std::int64_t index, float (&to)[N]) const {
        if constexpr (V != kStreamedRow) {
            const Words<T, N>& words = home_.at(place(v));
            if constexpr (fills_registers(V)) return to_floats(as_vector<T, N>(opaque(words)), to);
            if (kUniform || held_) return to_floats(as_vector<T, N>(words), to);
        }
        if (from_->data == nullptr) {
#pragma unroll
            for (int i = 0; i < N; ++i) to[i] = fill_;
        } else {
            load_floats(*from_, row_, index, to);
        }
    }

    // Slot v has been used: its place is for the slot kHeld later or, where all are used `again`, for the first ones.
    __device__ __forceinline__ void pass(const RowPart& part, int v, bool again) {
        static_assert(V > 0 && V % kHeld == 0 && fills_registers(V));
        const int later = (v + kHeld) % V;
        if ((later < v && !again) || from_->data == nullptr || later >= part.slots<N>()) return;
        const T* data = part.origin<N, V>(static_cast<const T*>(from_->data) + row_ * from_->stride);
        home_.at(place(v)) = load_words<N>(data + later * part.step * N);
    }

    // Holds `words` in slot v from now on; `hold` says that all slots are set.
    __device__ __forceinline__ void put(int v, const Words<T, N>& words) {
        if constexpr (V != kStreamedRow) home_.at(v) = words;
    }
    __device__ __forceinline__ void hold() { held_ = V != kStreamedRow; }

   private:
    static constexpr int place(int v) { return kHeld < V ? v % kHeld : v; }

    RowHome<T, N, kHeld> home_;
    const RowOperand* from_;
    std::int64_t row_;
    float fill_ = 0.0f;
    bool held_ = false;
};

// What a row is made of: x, or round(x + residual), which goes to residual_out too where that is present.
struct RowInput {
    RowOperand x, residual, residual_out;
    bool keep = false;  // L2 keeps x and residual after all else (L2Policy)
};

// A thread's part of the row that a kernel works on; T is what its elements are stored as: the residual's
// dtype if there is one (residual_out has the same), else x's.
template <class T, int N, int V, class Form>
class Row {
   public:
    static constexpr RowForm kForm = Form::kForm;
    using Index = RowIndex<V>;

    template <GroupScope kScope>
    __device__ __forceinline__ Row(const Group<kScope>& group, const RowShape& shape) : part(group, shape) {}

    // meanwhile() is called while what is loaded is on its way; where a residual fills the registers, once it is added.
    template <class Meanwhile>
    __device__ __forceinline__ void load(const RowInput& in, Meanwhile meanwhile) {
        constexpr bool kRoom = V == 1 || V == 2;
        in_ = &in;
        RowSlice<T, N, V == kSharedRow ? kStreamedRow : V, kForm.uniform> residual;
        const bool sum = kForm.residual && (kForm.uniform || in.residual.data != nullptr);
        const auto load = [&](auto... policy) {
            x_.load(part, in.x, part.row, policy...);
            if (sum) residual.load(part, in.residual, part.row, policy...);
        };
        if constexpr (kForm.uniform) {
            load(l2_policy(in.keep));
        } else {
            load();
        }
        if (!sum) return meanwhile();
        if constexpr (kRoom) meanwhile();
        add(in, residual);
        if constexpr (!kRoom) meanwhile();
    }

    // use(slot, index, values) for each vector of the thread.
    template <class F>
    __device__ __forceinline__ void each(F use) const {
        part.template each<N, V>([&](int v, RowIndex<V> index) {
            float x[N];
            get(v, index, x);
            use(v, index, x);
        });
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

    // Calls `use` with a null pointer to the type that `dtype`, which is out's, is stored as.
    template <class F>
    __device__ __forceinline__ static void with_out(DType dtype, F use) {
        if constexpr (kForm.uniform) {
            use(static_cast<std::conditional_t<kForm.fp8, e4m3, T>*>(nullptr));
        } else {
            with_type(dtype, use);
        }
    }

    static constexpr int kWidth = N, kVectors = V;
    static constexpr bool kScaled = kForm.fp8;  // out may have a scale
    const RowPart part;

   private:
    // x becomes the rounded sum, which goes to residual_out too.
    template <class Slice>
    __device__ __forceinline__ void add(const RowInput& in, const Slice& residual) {
        part.template each<N, V>([&](int v, RowIndex<V> index) {
            float x[N], r[N];
            x_.get(v, index, x);
            residual.get(v, index, r);
#pragma unroll
            for (int i = 0; i < N; ++i) x[i] += r[i];
            const Vec<T, N> sum = from_floats<T>(x);
            x_.put(v, as_words(sum));
            if (in.residual_out.data != nullptr) {
                T* to = static_cast<T*>(in.residual_out.data) + part.row * in.residual_out.stride;
                store_aligned(part.template origin<N, V>(to) + index, sum);
            }
        });
        x_.hold();
    }

    __device__ __forceinline__ void get(int v, std::int64_t index, float (&x)[N]) const {
        if constexpr (V != kStreamedRow || !kForm.residual) return x_.get(v, index, x);
        if (in_->residual.data != nullptr && in_->residual_out.data != nullptr) {
            return load_floats(in_->residual_out, part.row, index, x);  // what this thread wrote itself
        }
        x_.get(v, index, x);
        if (in_->residual.data == nullptr) return;
        float r[N];
        load_floats(in_->residual, part.row, index, r);
#pragma unroll
        for (int i = 0; i < N; ++i) x[i] = round_through<T>(x[i] + r[i]);
    }

    RowSlice<T, N, V, kForm.uniform> x_;
    const RowInput* in_;
};

}  // namespace weft::inline WEFT_TARGET::kit
