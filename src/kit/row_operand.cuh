// Operands of row kernels: which row of each belongs to a row of x, as numbers that the kernel gets where it is
// launched (weft/row_map.h), and vectors of them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kit/convert.cuh"
#include "kit/divisor.cuh"
#include "kit/reduce.cuh"
#include "kit/row_plan.h"
#include "kit/vector.cuh"
#include "weft/row_map.h"

namespace weft::inline WEFT_TARGET::kit {

// A tensor beside x; absent where data is null. What most calls need is here, and short: the parameters of a launch come
// from memory a line at a time, which a small kernel waits for.
struct RowOperand {
    void* data = nullptr;
    std::int64_t stride = 0;  // elements from row to row of a run (RowShape::run); 0: one row that all share
    std::int64_t run_stride = 0;  // from the first row of a run to that of the next
    DType dtype = DType::fp32;
    bool single = false;      // one element stands for all of its row
    bool aligned = false;     // every row begins where a vector may be moved whole
    std::uint8_t number = 0;  // of its RowPlace
};

// Where the rows of an operand lie, if not at those two strides.
struct RowPlace {
    std::int64_t stride[kMaxRowAxes] = {};  // elements along each of RowPlaces' axes
    // Where given, the operand is a table of `table` rows, one stride apart, and this names the row for each row of x. A
    // number outside of the table reads the nearest row.
    const void* picks = nullptr;
    DType picks_dtype = DType::int32;
    std::int64_t table = 0;
};

inline constexpr int kMaxRowOperands = 12;

// The rows of x are numbered along `axes` axes, over which every operand has its strides.
struct RowPlaces {
    int axes = 1;
    Divisor size[kMaxRowAxes] = {};  // of each axis but the first
    RowPlace of[kMaxRowOperands] = {};
};

// What a kernel is told of its rows. lanes_log2: of lanes that share a warp with others. Rows come in runs, as the tokens of
// a batch or the heads of a token: every operand has one stride in a run and one from run to run, either of which may be
// 0. `scattered`: some operand has not: then RowPlaces says where each row lies.
struct RowShape {
    std::int64_t rows = 0, dim = 0;
    Divisor run = {};  // rows of a run
    int lanes = 32, lanes_log2 = 5, cluster = 1;
    bool scattered = false;
};

// Elements from an operand's first to where the row begins that belongs to row `row` of x.
__device__ __forceinline__ std::int64_t scattered_offset(const RowPlaces& places, const RowOperand& operand,
                                                         std::int64_t row) {
    const RowPlace& place = places.of[operand.number];
    if (place.picks != nullptr) {
        const std::int64_t pick = place.picks_dtype == DType::int64
                                      ? static_cast<const std::int64_t*>(place.picks)[row]
                                      : static_cast<const std::int32_t*>(place.picks)[row];
        return (pick < 0 ? 0 : pick < place.table ? pick : place.table - 1) * operand.stride;
    }
    std::int64_t at = 0;
    auto rest = static_cast<unsigned>(row);
#pragma unroll 1
    for (int axis = places.axes - 1; axis > 0; --axis) {
        const unsigned outer = places.size[axis].quotient(rest);
        at += static_cast<std::int64_t>(rest - outer * places.size[axis].divisor) * place.stride[axis];
        rest = outer;
    }
    return at + rest * place.stride[0];
}
// A row of x as its run and its place there. `few`: there are fewer than 2^31 rows, which spares registers.
struct RunRow {
    std::int64_t row, within;
    unsigned run;

    __device__ __forceinline__ RunRow(const RowShape& shape, std::int64_t of, bool few)
        : row(of), run(shape.run.quotient(static_cast<unsigned>(of))) {
        within = few ? static_cast<unsigned>(of) - run * shape.run.divisor
                     : of - static_cast<std::int64_t>(run) * shape.run.divisor;
    }
    // `places`: null where no operand is scattered.
    __device__ __forceinline__ std::int64_t offset(const RowShape& shape, const RowPlaces* places,
                                                   const RowOperand& operand) const {
        if (places != nullptr && shape.scattered) return scattered_offset(*places, operand, row);
        return within * operand.stride + run * operand.run_stride;
    }
};

// An element's place in its row: an int, which spares address arithmetic, where V vectors are all that a thread has.
template <int V>
using RowIndex = std::conditional_t<(V > 0), int, std::int64_t>;

// Which row the calling thread works on, and which of its vectors are the thread's. A thread without a row
// has dim 0: it loads and stores nothing but takes part in reductions.
struct RowPart {
    const RowShape& shape;
    const RowPlaces* const places;  // null: no operand is scattered, and rows are fewer than 2^31
    const RunRow at;
    std::int64_t dim;
    int first, step;
    bool present;

    template <GroupScope kScope>
    __device__ __forceinline__ RowPart(const Group<kScope>& group, const RowShape& of, const RowPlaces* where)
        : shape(of), places(where), at(of, row_of(group, of), where == nullptr) {
        present = !group.in_warp() || at.row < shape.rows;
        dim = present ? shape.dim : 0;
        first = group.thread();
        step = group.size();
    }

    // Elements from an operand's first to where its row begins.
    __device__ __forceinline__ std::int64_t offset(const RowOperand& operand) const {
        return present ? at.offset(shape, places, operand) : 0;
    }
    template <class T>
    __device__ __forceinline__ T* begin(const RowOperand& operand) const {
        return static_cast<T*>(operand.data) + offset(operand);
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

    // Where slot v of V lies from there.
    template <int N, int V>
    __device__ __forceinline__ RowIndex<V> index(int v) const {
        return fills_registers(V) ? v * step * N : (first + v * step) * N;
    }

    // use(slot, index) for each vector of the thread, V or as many as there are; it lies at origin() + index.
    // before(index) is called before each run of kRun of them, with the index of its first. kUnroll: how often the loop
    // over a row that is not held is written out; what is written out is written for every choice of dtypes in it.
    template <int N, int V, int kRun = 1, int kUnroll = 1, class Use, class Before>
    __device__ __forceinline__ void each(Use use, Before before) const {
        if constexpr (fills_registers(V)) {
            const int held = slots<N>();
#pragma unroll
            for (int v = 0; v < V; ++v) {
                if (v < held) use(v, index<N, V>(v));
            }
        } else if constexpr (V > 0) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const int at = index<N, V>(v);
                if (v % kRun == 0) before(at);
                if (at < static_cast<int>(dim)) use(v, at);
            }
        } else {
            const std::int64_t stride = std::int64_t{step} * N;
            int v = 0;
#pragma unroll kUnroll
            for (std::int64_t index = std::int64_t{first} * N; index < dim; index += stride) {
                before(index);
                use(v++, index);
            }
        }
    }
    template <int N, int V, class Use>
    __device__ __forceinline__ void each(Use use) const {
        each<N, V>(use, [](RowIndex<V>) {});
    }

    // use(slot, index) for every slot that some thread of the group may have, all threads together: of a slot that the
    // calling one lacks, the index is dim or more. Registers are not full.
    template <int N, int V, int kRun, class Use, class Before>
    __device__ __forceinline__ void each_slot(Use use, Before before) const {
        static_assert(!fills_registers(V));
        const std::int64_t stride = std::int64_t{step} * N;
        if constexpr (V > 0) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const int at = index<N, V>(v);
                if (v % kRun == 0) before(at);
                if (v * stride < shape.dim) use(v, at);
            }
        } else {
            int v = 0;
            for (std::int64_t begin = 0; begin < shape.dim; begin += stride) {
                const std::int64_t at = begin + std::int64_t{first} * N;
                before(at);
                use(v++, at);
            }
        }
    }

   private:
    template <GroupScope kScope>
    __device__ __forceinline__ static std::int64_t row_of(const Group<kScope>& group, const RowShape& shape) {
        const auto block =
            static_cast<std::int64_t>(group.clustered() ? blockIdx.x / group.cluster : blockIdx.x);
        if (!group.in_warp()) return block;
        return block * (blockDim.x >> shape.lanes_log2) + (threadIdx.x >> shape.lanes_log2);
    }
};

// V vectors of an operand that is stored as T, as they came from memory. kHeld are held at a time: where these are
// fewer, what has been used makes room (pass).
template <class T, int N, int V, int kHeld = V>
class RowSlice {
    static_assert(V > 0);

   public:
    // Of an operand that is there. `policy`: none or an L2Policy.
    template <class... Policy>
    __device__ __forceinline__ void load(const RowPart& part, const RowOperand& from, Policy... policy) {
        const T* data = part.origin<N, V>(part.begin<const T>(from));
        from_ = data;
        part.each<N, V>([&](int v, RowIndex<V> index) {
            if (kHeld < V && v >= kHeld) return;
            held_[v] = load_words<N>(data + index, policy...);
        });
    }
    // Of one that is `fill` everywhere where it is not.
    __device__ __forceinline__ void load_or(float fill, const RowPart& part, const RowOperand& from) {
        if (from.data != nullptr) return load(part, from);
        from_ = nullptr;
        Vec<T, N> padding;
#pragma unroll
        for (int i = 0; i < N; ++i) padding[i] = from_float<T>(fill);
        part.each<N, V>([&](int v, RowIndex<V>) { held_[place(v)] = as_words(padding); });
    }

    __device__ __forceinline__ void get(int v, float (&to)[N]) const {
        if constexpr (fills_registers(V)) return to_floats(as_vector<T, N>(opaque(held_[place(v)])), to);
        to_floats(as_vector<T, N>(held_[place(v)]), to);
    }

    // Slot v has been used: its place is for the slot kHeld later or, where all are used `again`, for the first ones.
    __device__ __forceinline__ void pass(const RowPart& part, int v, bool again) {
        static_assert(V % kHeld == 0);
        const int later = (v + kHeld) % V;
        if ((later < v && !again) || from_ == nullptr || later >= part.slots<N>()) return;
        held_[place(v)] = load_words<N>(from_ + part.index<N, V>(later));
    }

    // Holds `words` in slot v from now on.
    __device__ __forceinline__ void put(int v, const Words<T, N>& words) { held_[v] = words; }

   private:
    static constexpr int place(int v) { return kHeld < V ? v % kHeld : v; }

    Words<T, N> held_[kHeld];
    const T* from_ = nullptr;
};

// V vectors of an operand of any dtype, of which the dtype is asked twice: when all are asked for, and when all are made
// fp32 (`widen`). Where it is absent, or one element for the row, every element is that number.
template <int N, int V>
class AnySlice {
   public:
    __device__ __forceinline__ void load_or(float fill, const RowPart& part, const RowOperand& from) {
        dtype_ = from.dtype;
        if (from.data == nullptr || from.single) {
            if (from.single && part.present) fill = load_as(dtype_, from.data, part.offset(from));
#pragma unroll
            for (auto& vector : held_) {
#pragma unroll
                for (float& element : vector.at) element = fill;
            }
            dtype_ = DType::fp32;
        } else if (dtype_ == DType::fp32) {
            fetch<float>(part, from);
        } else {
            fetch<bf16>(part, from);  // or fp16: what counts here is the size
        }
    }
    __device__ __forceinline__ void widen() {
        if (dtype_ == DType::bf16) return widen_from<bf16>();
        if (dtype_ == DType::fp16) return widen_from<half>();
    }
    __device__ __forceinline__ void get(int v, float (&to)[N]) const {
#pragma unroll
        for (int i = 0; i < N; ++i) to[i] = held_[v].at[i];
    }

   private:
    struct Floats {
        float at[N];
    };
    template <class T>
    __device__ __forceinline__ void fetch(const RowPart& part, const RowOperand& from) {
        const T* data = part.begin<const T>(from);
        part.each<N, V>([&](int v, RowIndex<V> index) {
            const Words<T, N> words = load_words<N>(data + index);
            memcpy(&held_[v], &words, sizeof(words));
        });
    }
    template <class T>
    __device__ __forceinline__ void widen_from() {
#pragma unroll
        for (Floats& vector : held_) {
            Words<T, N> words;
            memcpy(&words, &vector, sizeof(words));
            to_floats(as_vector<T, N>(words), vector.at);
        }
    }

    Floats held_[V];
    DType dtype_;
};

// How many vectors of an operand of any dtype a thread asks for before it uses the first: 8 elements at most, which are 8
// registers of fp32.
template <int N, int V>
inline constexpr int kRowRun = V <= 0      ? 1
                               : V < 8 / N ? V
                                           : 8 / N;

// An operand of any dtype, which is read where it is used: kRun vectors at a time, of which the dtype is asked once.
// Where it is absent it is `fill`.
template <int N, int kRun>
class LateOperand {
   public:
    __device__ __forceinline__ LateOperand(const RowPart& part, const RowOperand& from, float fill = 0.0f)
        : dtype_(from.dtype), fill_(fill) {
        if (from.data == nullptr) return;
        const std::int64_t at = part.offset(from);
        if (from.single) {
            if (part.present) fill_ = load_as(dtype_, from.data, at);
        } else {
            data_ = static_cast<const char*>(from.data) + at * (dtype_ == DType::fp32 ? 4 : 2);
        }
    }

    // The vectors from `index` on that belong to the calling thread.
    __device__ __forceinline__ void fetch(const RowPart& part, std::int64_t index) {
        if (data_ == nullptr) return;
        with_width([&](auto* type) {
            using T = std::remove_pointer_t<decltype(type)>;
#pragma unroll
            for (int k = 0; k < kRun; ++k) {
                const std::int64_t at = index + static_cast<std::int64_t>(k) * part.step * N;
                if (at >= part.dim) continue;
                const Words<T, N> words = load_words<N>(reinterpret_cast<const T*>(data_) + at);
                memcpy(&raw_[k], &words, sizeof(words));
            }
        });
    }
    // Vector k of those.
    __device__ __forceinline__ void get(int k, float (&to)[N]) const {
        if (data_ == nullptr) {
#pragma unroll
            for (int i = 0; i < N; ++i) to[i] = fill_;
            return;
        }
        with_wide_type(dtype_, [&](auto* type) {
            using T = std::remove_pointer_t<decltype(type)>;
            Words<T, N> words;
            memcpy(&words, &raw_[k], sizeof(words));
            to_floats(as_vector<T, N>(words), to);
        });
    }

   private:
    // What is moved: the element's size is all that counts.
    template <class F>
    __device__ __forceinline__ void with_width(F use) const {
        if (dtype_ == DType::fp32) return use(static_cast<float*>(nullptr));
        use(static_cast<bf16*>(nullptr));
    }

    Words<float, N> raw_[kRun];
    const char* data_ = nullptr;
    DType dtype_;
    float fill_;
};

}  // namespace weft::inline WEFT_TARGET::kit
