// Operands of row kernels: which row of each belongs to a row of x, as numbers that the kernel gets where it is
// launched (weft/row_map.h), and vectors of them.
#pragma once

#include <cstdint>

#include "kit/convert.cuh"
#include "kit/divisor.cuh"
#include "kit/ptx/multiply.cuh"
#include "kit/reduce.cuh"
#include "kit/row_plan.h"
#include "kit/vector.cuh"
#include "weft/row_map.h"

namespace weft::inline WEFT_TARGET::kit {

// How the rows of an operand are found: by two strides; in a table, by an index (RowPlaces::picks); by a RowPlace, which
// serves all.
enum class RowsBy : std::uint8_t { strides, picks, place };

// A tensor beside x; absent where data is null. What most calls need is here, and short: the parameters of a launch come
// from memory a line at a time, which a small kernel waits for.
struct RowOperand {
    void* data = nullptr;
    // Elements from row to row of a run (RowShape::run), and from the first row of a run to that of the next; 0: one row that
    // all share. What 32 bits do not hold has a RowPlace.
    std::int32_t stride = 0, run_stride = 0;
    DType dtype = DType::fp32;
    bool single = true;       // one element stands for all of its row, or it is absent
    bool aligned = false;     // every row begins where a vector may be moved whole
    std::uint8_t number = 0;  // of its RowPlace
    RowsBy rows = RowsBy::strides;
};

// Where the rows of an operand lie, if not at those two strides.
struct RowPlace {
    std::int64_t stride[kMaxRowAxes] = {};  // elements along each of RowPlaces' axes
};

inline constexpr int kMaxRowOperands = 12;

// The rows of x are numbered along `axes` axes, over which every operand has its strides.
struct RowPlaces {
    int axes = 1;
    Divisor size[kMaxRowAxes] = {};  // of each axis but the first
    bool wide = false;               // there are 2^31 rows or more, which divisors do not divide
    std::int64_t wide_size[kMaxRowAxes] = {};
    RowPlace of[kMaxRowOperands] = {};
    // Where given, some operands are tables of `table` rows, one stride apart, and this names their row for each row of x. A
    // number outside of the table reads the nearest row.
    const void* picks = nullptr;
    DType picks_dtype = DType::int32;
    std::int64_t table = 0;
};

// What a kernel is told of its rows. lanes_log2: of lanes that share a warp with others. Rows come in runs, as the tokens of
// a batch or the heads of a token: every operand has one stride in a run and one from run to run, either of which may be
// 0. `by`: how the rows of an operand are found at most; RowOperand::rows says it of each.
struct RowShape {
    std::int64_t rows = 0, dim = 0;
    Divisor run = {};  // rows of a run
    int lanes = 32, lanes_log2 = 5, cluster = 1;
    RowsBy by = RowsBy::strides;
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

// Elements from an operand's first to where the row begins that belongs to row `row` of x. Called, not copied: a kernel asks
// for a dozen operands, of which few calls scatter one, and the copies were a fifth of its code.
[[gnu::noinline]] __device__ inline std::int64_t scattered_offset(const RowPlaces& places, int number,
                                                                  std::int64_t row) {
    const RowPlace& place = places.of[number];
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

// What an index says for a row: as it lies in memory, and understood once (settle).
struct RowPick {
    unsigned low = 0, high = 0;

    __device__ __forceinline__ void load(const RowPlaces& places, std::int64_t row) {
        if (places.picks_dtype == DType::int64) {
            const auto words = kit::load(static_cast<const uint2*>(places.picks) + row);
            low = words.x, high = words.y;
        } else {
            low = kit::load(static_cast<const unsigned*>(places.picks) + row);
        }
    }
    // From now on it is the row of the tables.
    __device__ __forceinline__ void settle(const RowPlaces& places) {
        std::int64_t pick = static_cast<std::int32_t>(low);
        if (places.picks_dtype == DType::int64) pick = wide();
        pick = pick < 0 ? 0 : pick < places.table ? pick : places.table - 1;
        low = static_cast<unsigned>(pick);
        high = static_cast<unsigned>(pick >> 32);
    }
    __device__ __forceinline__ std::int64_t wide() const {
        return static_cast<std::int64_t>(std::uint64_t{high} << 32 | low);
    }
};

// A row of x as its run and its place there. `places`: null where every operand has its two strides. `few`: there are fewer
// than 2^31 rows, also of a table, and no operand has a RowPlace, which spares registers.
struct RunRow {
    const RowPlaces* const places;
    const bool few;
    std::int64_t row, within;
    unsigned run;
    RowPick pick;

    // Asks for no memory: a kernel finds addresses before it waits for those before it.
    __device__ __forceinline__ RunRow(const RowShape& shape, std::int64_t of, const RowPlaces* where,
                                      bool are_few)
        : places(where),
          few(are_few),
          row(few ? static_cast<unsigned>(of) : of),
          run(shape.run.quotient(static_cast<unsigned>(of))) {
        within = few ? static_cast<unsigned>(of) - run * shape.run.divisor
                     : of - static_cast<std::int64_t>(run) * shape.run.divisor;
    }
    // Asks for the index, where there is one, and waits for it: so once what no index picks is on its way. (Were it waited for
    // later, calls without an index would wait there for those loads: they meet the others while its load may be pending.)
    __device__ __forceinline__ void ask(const RowShape& shape) {
        if (!picks()) return;
        if (row < shape.rows) pick.load(*places, row);
        pick.settle(*places);
    }
    // Elements from an operand's first to where its row begins.
    __device__ __forceinline__ std::int64_t offset(const RowShape& shape, const RowOperand& operand) const {
        if (few) {  // those of a table are one run
            const bool picked = places != nullptr && operand.rows != RowsBy::strides;
            return by_strides(
                operand, picked ? static_cast<std::int32_t>(pick.low) : static_cast<std::int32_t>(within));
        }
        if (places != nullptr && shape.by != RowsBy::strides && operand.rows != RowsBy::strides) {
            if (operand.rows == RowsBy::place) return scattered_offset(*places, operand.number, row);
            return pick.wide() * places->of[operand.number].stride[0];
        }
        return by_strides(operand, within);
    }
    // The same of an operand that no index picks.
    __device__ __forceinline__ std::int64_t plain_offset(const RowShape& shape,
                                                         const RowOperand& operand) const {
        if (!few && places != nullptr && shape.by == RowsBy::place)
            return scattered_offset(*places, operand.number, row);
        return by_strides(operand, within);
    }

   private:
    __device__ __forceinline__ bool picks() const { return places != nullptr && places->picks != nullptr; }
    __device__ __forceinline__ std::int64_t by_strides(const RowOperand& operand, std::int64_t at) const {
        const std::int64_t begin = multiply_wide(static_cast<std::int32_t>(run), operand.run_stride, 0);
        if (few) return multiply_wide(static_cast<std::int32_t>(at), operand.stride, begin);
        return begin + at * operand.stride;
    }
};

// Which row the calling thread works on, and which of its vectors are the thread's. A thread without a row
// has dim 0: it loads and stores nothing but takes part in reductions.
struct RowPart {
    const RowShape& shape;
    RunRow at;
    std::int64_t dim;
    int first, step;
    bool present;

    template <GroupScope kScope>
    __device__ __forceinline__ RowPart(const Group<kScope>& group, const RowShape& of,
                                       const RowPlaces* places, bool few)
        : shape(of), at(of, row_of(group, of), places, few) {
        present = !group.in_warp() || at.row < shape.rows;
        dim = present ? shape.dim : 0;
        first = group.thread();
        step = group.size();
    }

    // Elements from an operand's first to where its row begins; of a thread without a row, to where none is.
    __device__ __forceinline__ std::int64_t offset(const RowOperand& operand) const {
        return at.offset(shape, operand);
    }
    // The same of an operand that no index picks: it is known before memory is.
    __device__ __forceinline__ std::int64_t plain_offset(const RowOperand& operand) const {
        return at.plain_offset(shape, operand);
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

    // What a thread's indices are counted from: its own first vector, of an operand whose row begins at element `begin`.
    // Slot v is v · step · N from there for all threads alike: one addition to an address, which the compiler is kept from
    // taking apart.
    template <int N>
    __device__ __forceinline__ char* origin_of(void* data, std::int64_t begin, int element_bytes) const {
        return static_cast<char*>(data) + opaque((begin + first * N) * element_bytes);
    }
    template <int N, class T>
    __device__ __forceinline__ T* origin(void* data, std::int64_t begin) const {
        return reinterpret_cast<T*>(origin_of<N>(data, begin, static_cast<int>(sizeof(T))));
    }
    template <int N, class T>
    __device__ __forceinline__ T* origin(const RowOperand& operand) const {
        return origin<N, T>(operand.data, offset(operand));
    }

    // Where slot v lies from there.
    template <int N>
    __device__ __forceinline__ int index(int v) const {
        return v * step * N;
    }

    // use(slot, index) for each vector of the thread, V at most; it lies at origin() + index. A thread whose registers are
    // full counts its slots, and so keeps no V answers.
    template <int N, int V, class Use>
    __device__ __forceinline__ void each(Use use) const {
        static_assert(V > 0);
        const int held = fills_registers(V) ? slots<N>() : 0;
#pragma unroll
        for (int v = 0; v < V; ++v) {
            const bool there = fills_registers(V) ? v < held : (first + v * step) * N < static_cast<int>(dim);
            if (there) use(v, index<N>(v));
        }
    }

   private:
    template <GroupScope kScope>
    __device__ __forceinline__ static std::int64_t row_of(const Group<kScope>& group, const RowShape& shape) {
        // Clusters are powers of two.
        const std::int64_t block =
            group.clustered() ? blockIdx.x >> __popc(static_cast<unsigned>(group.cluster) - 1) : blockIdx.x;
        if (!group.in_warp()) return block;
        return block * (blockDim.x >> shape.lanes_log2) + (threadIdx.x >> shape.lanes_log2);
    }
};

// V vectors of an operand that is stored as T, as they came from memory. kHeld are held at a time: where these are
// fewer, what has been used makes room (pass); where none is, each is read where it is used, which is soon done for a row that
// all share, in a cache.
template <class T, int N, int V, int kHeld = V>
class RowSlice {
    static_assert(V > 0);

   public:
    // Of an operand that is there. `policy`: none or an L2Policy.
    template <class... Policy>
    __device__ __forceinline__ void load(const RowPart& part, const RowOperand& from, Policy... policy) {
        load_from(part.origin<N, const T>(from), part, policy...);
    }
    // Where load finds the thread's first vector of one that no index picks.
    __device__ __forceinline__ static const T* find(const RowPart& part, const RowOperand& from) {
        return part.origin<N, const T>(from.data, part.plain_offset(from));
    }
    template <class... Policy>
    __device__ __forceinline__ void load_from(const T* data, const RowPart& part, Policy... policy) {
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
        fill_ = fill;
        if constexpr (kHeld > 0) {
            Vec<T, N> padding;
#pragma unroll
            for (int i = 0; i < N; ++i) padding[i] = from_float<T>(fill);
            part.each<N, V>([&](int v, int) { held_[place(v)] = as_words(padding); });
        }
    }

    __device__ __forceinline__ void get(int v, float (&to)[N]) const {
        static_assert(kHeld > 0);
        if constexpr (fills_registers(V)) return to_floats(as_vector<T, N>(opaque(held_[place(v)])), to);
        to_floats(as_vector<T, N>(held_[place(v)]), to);
    }
    // The same of any slice.
    __device__ __forceinline__ void get(const RowPart& part, int v, float (&to)[N]) const {
        if constexpr (kHeld > 0) {
            get(v, to);
        } else if (from_ != nullptr) {
            to_floats(as_vector<T, N>(load_words<N>(from_ + part.index<N>(v))), to);
        } else {
#pragma unroll
            for (float& value : to) value = fill_;
        }
    }

    // Slot v has been used: its place is for the slot kHeld later or, where all are used `again`, for the first ones.
    __device__ __forceinline__ void pass(const RowPart& part, int v, bool again) {
        static_assert(V % kHeld == 0);
        const int later = (v + kHeld) % V;
        if ((later < v && !again) || from_ == nullptr || later >= part.slots<N>()) return;
        held_[place(v)] = load_words<N>(from_ + part.index<N>(later));
    }

    // Holds `words` in slot v from now on.
    __device__ __forceinline__ void put(int v, const Words<T, N>& words) { held_[v] = words; }

   private:
    static constexpr int kPlaces = kHeld > 0 ? kHeld : 1;
    static constexpr int place(int v) { return kHeld < V ? v % kPlaces : v; }

    Words<T, N> held_[kPlaces];
    const T* from_ = nullptr;
    float fill_ = 0;
};

}  // namespace weft::inline WEFT_TARGET::kit
