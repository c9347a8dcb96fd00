// The row of kernels whose operands each have a dtype of their own, x and residual too, and whose rows may be of any
// length and begin anywhere. It is a Row (kit/row.cuh) but for two things. It is held as SideSlices: fetched as it is
// stored, for which its size is enough to know, and widened once, so dtypes add up and do not multiply. And it is moved in
// pieces: of eight elements, of four, two or one, the largest that every operand's rows are whole pieces of.
//
// Pieces of less than an octet are dealt so that each access is a run of neighbours, and that a thread's next piece is a
// constant away: a squad of threads, sixteen say, owns a stretch of the row, of which each has every sixteenth piece.
#pragma once

#include "kit/row.cuh"

namespace weft::inline WEFT_TARGET::kit {

// RowPart of a thread with V octets of pieces smaller than an octet.
template <int kPiece, int V>
struct PiecePart : RowPart {
    static constexpr int kSquad = weft::detail::row_squad(kPiece, V);
    int element;       // of the row, where the thread's first piece begins
    mutable int left;  // elements of the row from there on

    template <GroupScope kScope>
    __device__ __forceinline__ PiecePart(const Group<kScope>& group, const RowShape& of,
                                         const RowPlaces* places, bool few)
        : RowPart(group, of, places, few),
          element(first / kSquad * (kSquad * V * kOctet) + first % kSquad * kPiece),
          left(static_cast<int>(dim) - element) {}

    template <int N>
    __device__ __forceinline__ char* origin_of(void* data, std::int64_t begin, int element_bytes) const {
        static_assert(N == kPiece);
        return static_cast<char*>(data) + opaque((begin + element) * element_bytes);
    }
    template <int N, class T>
    __device__ __forceinline__ T* origin(void* data, std::int64_t begin) const {
        return reinterpret_cast<T*>(origin_of<N>(data, begin, static_cast<int>(sizeof(T))));
    }
    // use(piece, index) for each piece of the thread; it lies at origin() + index.
    template <int N, int kPieces, class Use>
    __device__ __forceinline__ void each(Use use) const {
        static_assert(N == kPiece && kPieces * kPiece == V * kOctet);
        const int reach = kPieces > kPredicates ? again(left) : left;
#pragma unroll
        for (int piece = 0; piece < kPieces; ++piece) {
            const int index = piece * kSquad * kPiece;
            if (index < reach) use(piece, index);
        }
    }
};

// A thread's part of the row: V octets of fp32. `kBare`: there is no gate, and no place but two strides.
template <int N, int V, bool kBare = false>
class AnyRow {
   public:
    static constexpr int kVectors = V, kPiece = N;
    using Side = SideSlice<V, kPiece>;
    using Part = std::conditional_t<kPiece == kOctet, RowPart, PiecePart<kPiece, V>>;
    Part part;

    template <GroupScope kScope>
    __device__ __forceinline__ AnyRow(const Group<kScope>& group, const RowShape& shape,
                                      const RowPlaces* places)
        : part(group, shape, places, kBare) {}

    // As Row::load.
    template <class Meanwhile>
    __device__ __forceinline__ void load(const RowInput& in, Meanwhile meanwhile) {
        constexpr bool kRoom = V == 1;  // for more beside x and residual
        const bool sum = in.residual.data != nullptr, gated = !kBare && in.gate.data != nullptr;
        const L2Policy policy = l2_policy(in.keep);
        Side residual, gate;
        if constexpr (!finds_early(V)) begin_memory();
        const char* const x_from = x_.find(part, in.x);
        const char* const residual_from = sum ? residual.find(part, in.residual) : nullptr;
        if constexpr (finds_early(V)) begin_memory(x_from, residual_from);
        x_.fill(0.0f);
        x_.load_from(x_from, part, in.x, policy);
        if (sum) residual.load_from(residual_from, part, in.residual, policy);
        if (sum && gated) gate.load_or(1.0f, part, in.gate);
        part.at.ask(part.shape);
        if (kRoom) meanwhile();
        if (sum) {
            x_.widen(in.x);
            residual.widen(in.residual);
            if (gated) [[unlikely]] {
                gate.widen(in.gate);
                add(in, residual, [&](int v, int i) { return gate.at[v][i]; });
            } else {
                add(in, residual, [](int, int) { return 1.0f; });
            }
        }
        if (!kRoom) meanwhile();
        if (!sum) x_.widen(in.x);  // now that all is asked for
    }

    // use(slot, 0, values) for each octet of the thread, as Row::each, but that some elements may not be in the row.
    template <class F>
    __device__ __forceinline__ void each(F use) const {
#pragma unroll
        for (int v = 0; v < V; ++v) use(v, 0, x_.at[v]);
    }

    // use(piece, values) for each piece of the thread that is in the row.
    template <class F>
    __device__ __forceinline__ void each_piece(F use) const {
        part.template each<kPiece, Side::kPieces>([&](int piece, int) {
            float x[kPiece];
            x_.get(piece, x);
            use(piece, x);
        });
    }
    // The row, to be changed in place.
    __device__ __forceinline__ Side& values() { return x_; }

    // As Row::sum.
    template <class F>
    __device__ __forceinline__ float sum(F f) const {
        float even = 0, odd = 0;
        each_piece([&](int piece, const float (&x)[kPiece]) {
#pragma unroll
            for (int i = 0; i < kPiece; ++i) ((piece + i) % 2 == 0 ? even : odd) += f(x[i]);
        });
        return even + odd;
    }

   private:
    // x becomes x · gate + residual as the residual's dtype stores it, and goes to residual_out too.
    template <class Gate>
    __device__ __forceinline__ void add(const RowInput& in, const Side& residual, Gate gate) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
#pragma unroll
            for (int i = 0; i < kOctet; ++i) x_.at[v][i] = fmaf(x_.at[v][i], gate(v, i), residual.at[v][i]);
        }
        with_wide_type(in.residual.dtype, [&](auto* type) {
            using T = std::remove_pointer_t<decltype(type)>;
            x_.change([](float value) { return round_through<T>(value); });
            if (in.residual_out.data == nullptr) return;
            T* to = part.template origin<kPiece, T>(in.residual_out.data, part.offset(in.residual_out));
            part.template each<kPiece, Side::kPieces>([&](int piece, int index) {
                float sums[kPiece];
                x_.get(piece, sums);
                store_aligned(to + index, from_floats<T>(sums));
            });
        });
    }

    Side x_;
};

template <class T, int N, int V, class Form>
using RowOf = std::conditional_t<Form::kForm.any, AnyRow<N, V>, Row<T, N, V, Form>>;

}  // namespace weft::inline WEFT_TARGET::kit
