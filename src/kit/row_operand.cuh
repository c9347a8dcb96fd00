// Operands of row kernels: which row of each belongs to a row of x, as numbers that the kernel gets where it is
// launched (weft/row_map.h), and vectors of them.
#pragma once

#include <cstdint>

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
    bool wide = false;               // there are 2^31 rows or more, which divisors do not divide
    std::int64_t wide_size[kMaxRowAxes] = {};
    RowPlace of[kMaxRowOperands] = {};
};

// What a kernel is told of its rows. lanes_log2: of lanes that share a warp with others. Rows come in runs, as the tokens of
// a batch or the heads of a token: every operand has one stride in a run and one from run to run, either of which may be
// 0. `scattered`: some operand has not, or rows are too many for two strides: then RowPlaces says where each row lies.
struct RowShape {
    std::int64_t rows = 0, dim = 0;
    Divisor run = {};  // rows of a run
    int lanes = 32, lanes_log2 = 5, cluster = 1;
    bool scattered = false;
};

// scattered_offset of rows that no divisor divides.
[[gnu::noinline]] __device__ inline std::int64_t wide_offset(const RowPlaces& places, const RowPlace& place,
                                                             std::int64_t row) {
    std::int64_t at = 0;
#pragma unroll 1
    for (int axis = places.axes - 1; axis > 0; --axis) {
        const std::int64_t outer = row / places.wide_size[axis];
        at += (row - outer * places.wide_size[axis]) * place.stride[axis];
        row = outer;
    }
    return at + row * place.stride[0];
}

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
    if (places.wide) [[unlikely]]
        return wide_offset(places, place, row);
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
    __device__ __forceinline__ int index(int v) const {
        return fills_registers(V) ? v * step * N : (first + v * step) * N;
    }

    // use(slot, index) for each vector of the thread, V at most; it lies at origin() + index.
    template <int N, int V, class Use>
    __device__ __forceinline__ void each(Use use) const {
        static_assert(V > 0);
        const int held = fills_registers(V) ? slots<N>() : 0;
#pragma unroll
        for (int v = 0; v < V; ++v) {
            const int at = index<N, V>(v);
            if (fills_registers(V) ? v < held : at < static_cast<int>(dim)) use(v, at);
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
        part.each<N, V>([&](int v, int index) {
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
        part.each<N, V>([&](int v, int) { held_[place(v)] = as_words(padding); });
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

// The same of an operand whose dtype the kernel asks for where it runs: fp32, or 16 bits. One vector is held at a time.
template <int N, int V>
class SideSlice {
    static_assert(N == 8 && !fills_registers(V));

   public:
    __device__ __forceinline__ void load_or(float fill, const RowPart& part, const RowOperand& from) {
        dtype_ = from.data == nullptr ? DType::fp32 : from.dtype;
        if (from.data == nullptr) {
            from_ = nullptr;
            Vec<float, N> padding;
#pragma unroll
            for (int i = 0; i < N; ++i) padding[i] = fill;
            held_ = as_words(padding);
            return;
        }
        from_ = static_cast<const char*>(from.data) + part.offset(from) * stored_bytes(dtype_);
        fetch(part, 0);
    }
    // Tells L2 of what load_or and pass will ask for, unless rows share it.
    __device__ __forceinline__ static void announce(const RowPart& part, const RowOperand& later) {
        if (later.data == nullptr || (later.stride == 0 && !part.shape.scattered)) return;
        const int bytes = stored_bytes(later.dtype);
        const char* from = static_cast<const char*>(later.data) + part.offset(later) * bytes;
        part.each<N, V>([&](int, int index) { prefetch_l2(from + index * bytes); });
    }

    __device__ __forceinline__ void get(float (&to)[N]) const {
        with_wide_type(dtype_, [&](auto* type) {
            using T = std::remove_pointer_t<decltype(type)>;
            Words<T, N> words;
            memcpy(&words, &held_, sizeof(words));
            to_floats(as_vector<T, N>(words), to);
        });
    }

    // Slot v has been used: its place is for the next or, where all are used `again`, for the first one.
    __device__ __forceinline__ void pass(const RowPart& part, int v, bool again) {
        const int later = (v + 1) % V;
        if (later == v || (later < v && !again) || from_ == nullptr) return;
        fetch(part, later);
    }

   private:
    // Of 16 bits the first half holds all.
    __device__ __forceinline__ void fetch(const RowPart& part, int v) {
        const int index = part.index<N, V>(v);
        if (index >= static_cast<int>(part.dim)) return;
        const auto* at = reinterpret_cast<const Words<float, N>::Word*>(from_ + std::int64_t{index} *
                                                                                    stored_bytes(dtype_));
        held_.at[0] = kit::load(at);
        if (dtype_ == DType::fp32) held_.at[1] = kit::load(at + 1);
    }

    Words<float, N> held_;
    const char* from_ = nullptr;
    DType dtype_ = DType::fp32;
};

}  // namespace weft::inline WEFT_TARGET::kit
