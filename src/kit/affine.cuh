// Elementwise ops over rows with operands of other rows: out = (x + bias) · (offset + scale) + shift.
#pragma once

#include "kit/elementwise.cuh"
#include "kit/side_slice.cuh"

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
    int piece =
        0;  // elements that are moved at once: 8, 4, 2 or 1, where rows are few (RunRow), each vector has a thread and
    // steps are not rounded; 0: else
    int batch = 1;  // vectors, or as much in pieces, that a thread takes then
};
template <class T>
using AffineOf = std::conditional_t<std::is_same_v<T, Any>, MixedAffineRows, Affine>;

// Threads side by side in a row that is moved in pieces: 32 bytes at least, no more than that where rows may be short.
constexpr int affine_squad(int piece) { return piece == 1 ? 16 : 8; }

// A vector in fp32.
struct WideVector {
    float at[1][kAffineWidth];
};

// A vector of an operand of any dtype: first as it lies in memory, so that the loads of several operands are on their
// way together; then as fp32.
class RawVector {
   public:
    static constexpr int N = kAffineWidth;

    __device__ __forceinline__ void load(const MixedAffineRows& p, const RowOperand& from, const RunRow& row,
                                         const PartVector& at) {
        if (from.data == nullptr) return;
        const std::int64_t begin = row.offset(p.shape, from);
        if (from.dtype == DType::fp32) {
            load_as<float>(from, begin, at);
        } else {
            load_as<bf16>(from, begin, at);  // or fp16: what counts here is the size
        }
    }
    __device__ __forceinline__ WideVector widen(const RowOperand& from) const {
        WideVector to;
        with_wide_type(from.dtype, [&](auto* type) {
            using T = std::remove_pointer_t<decltype(type)>;
            Words<T, N> words;
            memcpy(&words, &raw_, sizeof(words));
            to_floats(as_vector<T, N>(words), to.at[0]);
        });
        return to;
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

    Words<float, N> raw_{};
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
        const T* begin = static_cast<const T*>(from.data) + row.offset(p.shape, from);
        words_ = load_words<N>(begin + std::int64_t{at.vector} * N, policy...);
    }
    __device__ __forceinline__ WideVector widen(const RowOperand&) const {
        WideVector to;
        // Halves are taken apart here: where they are loaded, they would be waited for before the next load.
        const Words<T, N> words = std::is_same_v<T, half> ? opaque<T, N>(words_) : words_;
        to_floats(as_vector<T, N>(words), to.at[0]);
        return to;
    }

   private:
    Words<T, N> words_{};
};

// The pieces of a row that a thread takes, for SideSlice: as many elements as in a batch of vectors. They are dealt as those
// of PiecePart (kit/any_row.cuh): each beside its neighbours', and a thread's next piece a constant away.
template <int kPiece>
struct TilePart {
    static constexpr bool present = true;
    static constexpr int kSquad = affine_squad(kPiece);
    const RowShape& shape;
    RunRow at;
    unsigned first;    // the thread's first piece
    mutable int left;  // pieces of the row from there on

    __device__ __forceinline__ std::int64_t offset(const RowOperand& operand) const {
        return at.offset(shape, operand);
    }
    template <int N>
    __device__ __forceinline__ char* origin_of(void* data, std::int64_t begin, int element_bytes) const {
        static_assert(N == kPiece);
        return static_cast<char*>(data) + (begin + std::int64_t{first} * N) * element_bytes;
    }
    template <int N, class T>
    __device__ __forceinline__ T* origin(void* data, std::int64_t begin) const {
        return reinterpret_cast<T*>(origin_of<N>(data, begin, static_cast<int>(sizeof(T))));
    }
    // use(piece, index) for each that the row reaches, from origin() on.
    template <int N, int kPieces, class Use>
    __device__ __forceinline__ void each(Use use) const {
        const int reach = kPieces > kPredicates ? again(left) : left;
#pragma unroll
        for (int piece = 0; piece < kPieces; ++piece) {
            if (piece * kSquad < reach) use(piece, piece * kSquad * N);
        }
    }
};

template <class T, int V>
__device__ __forceinline__ void round_all_through(float (&values)[V][kAffineWidth]) {
#pragma unroll
    for (auto& vector : values) {
#pragma unroll
        for (float& value : vector) value = round_through<T>(value);
    }
}

// y becomes the result for the x that it holds, from operands that are all on their way. `round(y)` makes of y's elements
// what out would store, after each step.
template <int V, class Bias, class Vectors, class Round>
__device__ __forceinline__ void affine_steps(const Affine& p, Bias& bias, Vectors& scale, Vectors& shift,
                                             Round round, float (&y)[V][kAffineWidth]) {
    const auto combine = [&](const float (&other)[V][kAffineWidth], auto f) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
#pragma unroll
            for (int i = 0; i < kAffineWidth; ++i) y[v][i] = f(y[v][i], other[v][i]);
        }
        round(y);
    };
    const auto sum = [](float a, float b) { return __fadd_rn(a, b); };
    if (p.bias.data != nullptr) combine(bias.widen(p.bias).at, sum);
    if (p.scale.data != nullptr) {
        auto&& factor = scale.widen(p.scale);
        if (p.offset != 0.0f) {
#pragma unroll
            for (auto& vector : factor.at) {
#pragma unroll
                for (float& value : vector) value = __fadd_rn(p.offset, value);
            }
            round(factor.at);
        }
        combine(factor.at, [](float a, float b) { return __fmul_rn(a, b); });
    }
    if (p.shift.data != nullptr) combine(shift.widen(p.shift).at, sum);
}

// Blocks of 256 threads that an SM is to have room for: the blocks of the kernel that comes next as well, which start while
// the last of this one's still store. Of fp32 a thread has twice the bytes on their way, of any dtype it holds more.
template <class T>
constexpr int affine_blocks() {
    return std::is_same_v<T, Any> ? 3 : std::is_same_v<T, float> ? 6 : 8;
}
// Vectors that a thread takes at most where dtypes are found out where it runs. Of few rows it takes one: what it does for a
// second would only begin later.
inline constexpr int kMixedBatch = 2;

// The bias, which all rows share: of T or fp32.
template <class T>
struct KnownBias : Shared<T, kAffineWidth> {
    __device__ __forceinline__ WideVector widen(const RowOperand& from) const {
        WideVector to;
        Shared<T, kAffineWidth>::widen(from, to.at[0]);
        return to;
    }
};
// Where rows are stored as T, in whole vectors; `out` is of 16 bits or fp32.
template <class T>
__device__ __forceinline__ void affine_known(const Affine& p, const RowTiles& tiles) {
    for_each_vector<kAffineWidth, T>(tiles, [&](const WholeVector& at) {
        KnownVector<T> x, scale, shift;
        KnownBias<T> bias;
        const L2Policy policy = l2_policy(p.keep);
        const RunRow row(p.shape, at.row, nullptr, true);
        x.load(p, p.x, row, at, policy);
        shift.load(p, p.shift, row, at, policy);
        scale.load(p, p.scale, row, at);
        if (p.bias.data != nullptr) bias.load(p.bias, at);
        WideVector y = x.widen(p.x);
        affine_steps(
            p, bias, scale, shift,
            [&](auto& values) {
                if (p.eager) round_all_through<T>(values);
            },
            y.at);
        const std::int64_t to = row.offset(p.shape, p.out) + std::int64_t{at.vector} * kAffineWidth;
        with_wide_type(p.out.dtype, [&](auto* type) {
            using Out = std::remove_pointer_t<decltype(type)>;
            store_aligned(static_cast<Out*>(p.out.data) + to, from_floats<Out>(y.at[0]));
        });
    });
}
// The row and the first piece of the thread, which takes as many elements as in kBatch vectors.
template <int kPiece, int kBatch>
__device__ __forceinline__ WholeVector first_of_batch(const RowTiles& tiles) {
    constexpr int kPieces = kBatch * kAffineWidth / kPiece, kSquad = TilePart<kPiece>::kSquad;
    const unsigned block_row = blockIdx.z * gridDim.y + blockIdx.y, lanes = 1u << tiles.lanes_log2,
                   thread = blockIdx.x * lanes + (threadIdx.x & (lanes - 1));
    return {block_row * (blockDim.x >> tiles.lanes_log2) + (threadIdx.x >> tiles.lanes_log2),
            thread / kSquad * (kSquad * kPieces) + thread % kSquad};
}
// Calls use(the thread's pieces) of those that begin with `first`, if there are any.
template <int kPiece, class Use>
__device__ __forceinline__ void with_tile_part(const MixedAffineRows& p, const WholeVector& first, Use use) {
    const auto count = static_cast<unsigned>(p.shape.dim / kPiece);
    if (first.row >= static_cast<unsigned>(p.shape.rows) || first.vector >= count) return;
    use(TilePart<kPiece>{p.shape,
                         {p.shape, first.row, &p.places, true},
                         first.vector,
                         static_cast<int>(std::min(count - first.vector, 1u << 30))});
}
// Calls use with the size of pieces as a constant.
template <class Use>
__device__ __forceinline__ void with_piece(int piece, Use use) {
    switch (piece) {
        case 8: return use(std::integral_constant<int, 8>{});
        case 4: return use(std::integral_constant<int, 4>{});
        case 2: return use(std::integral_constant<int, 2>{});
        default: use(std::integral_constant<int, 1>{});
    }
}
// The results for a thread's pieces. Dtypes are found out where it runs, each once for all that a thread takes of an operand.
template <int kBatch, int kPiece>
__device__ __forceinline__ SideSlice<kBatch, kPiece> affine_results(const MixedAffineRows& p,
                                                                    TilePart<kPiece>& part) {
    const L2Policy policy = l2_policy(p.keep);
    SideSlice<kBatch, kPiece> x, bias, scale, shift;
    x.load_or(0.0f, part, p.x, policy);
    part.at.ask(p.shape);
    if (p.shift.data != nullptr) shift.load_or(0.0f, part, p.shift, policy);
    if (p.scale.data != nullptr) scale.load_or(0.0f, part, p.scale);
    if (p.bias.data != nullptr) bias.load_or(0.0f, part, p.bias);
    affine_steps(p, bias, scale, shift, [](auto&) {}, x.widen(p.x).at);
    return x;
}
template <int kPiece, int kBatch>
__device__ __forceinline__ void affine_pieces(const MixedAffineRows& p, const RowTiles& tiles) {
    with_tile_part<kPiece>(p, first_of_batch<kPiece, kBatch>(tiles), [&](TilePart<kPiece> part) {
        const auto y = affine_results<kBatch>(p, part);
        store_wide(part, p.out, part.offset(p.out), y);
    });
}
// Where it is found out, too, whether a vector is whole: of rows that are aligned but for their end, and all others.
__device__ __forceinline__ void affine_parts(const MixedAffineRows& p, const RowTiles& tiles) {
    for_each_tile<kAffineWidth, 1>(tiles, [&](std::int64_t of, std::int64_t column, std::int64_t) {
        const PartVector at{of, column, left<kAffineWidth>(tiles.dim, column)};
        RawVector x, bias, scale, shift;
        RunRow row(p.shape, at.row, &p.places, false);
        row.ask(p.shape);
        x.load(p, p.x, row, at);
        shift.load(p, p.shift, row, at);
        scale.load(p, p.scale, row, at);
        bias.load(p, p.bias, row, at);
        WideVector y = x.widen(p.x);
        affine_steps(
            p, bias, scale, shift,
            [&](auto& values) {
                if (!p.eager) return;
                with_wide_type(p.out.dtype, [&](auto* type) {
                    round_all_through<std::remove_pointer_t<decltype(type)>>(values);
                });
            },
            y.at);
        const std::int64_t to = row.offset(p.shape, p.out) + at.column;
        with_wide_type(p.out.dtype, [&](auto* type) {
            using Out = std::remove_pointer_t<decltype(type)>;
            store_vector(static_cast<Out*>(p.out.data) + to, from_floats<Out>(y.at[0]), at.count,
                         p.out.aligned);
        });
    });
}

// What     out = (x + bias) · (offset + scale) + shift, in fp32, rounded once (eager: after each step)
// Mapping  a thread owns one vector of 8 elements of a row (kit/elementwise.cuh), of any dtypes one or two or as much in
//          smaller pieces; which row of an operand belongs to it are numbers (kit/row_operand.cuh)
// Traffic  every operand once (bound by memory); those that rows share come from the caches after the first rows
// Needs    out may be the memory of x, bias, scale or shift element for element: a thread reads its vectors before it
//          writes there. T, where it is not Any, is the dtype of x, scale and shift; all vectors are whole then, and the
//          bias one row for all
template <class T>
__device__ __forceinline__ void affine_rows(const AffineOf<T>& p, const RowTiles& tiles) {
    if constexpr (std::is_same_v<T, Any>) {
        dependency_wait();
        dependents_launch();
        if (p.piece == 0) return affine_parts(p, tiles);
        with_piece(p.piece, [&](auto piece) {
            if (p.batch == 1) return affine_pieces<piece(), 1>(p, tiles);
            affine_pieces<piece(), kMixedBatch>(p, tiles);
        });
    } else {
        affine_known<T>(p, tiles);
    }
}

}  // namespace weft::inline WEFT_TARGET::kit
