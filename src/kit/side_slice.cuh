// What a thread has of an operand whose dtype the kernel asks for where it runs: V octets of fp32 or 16 bits. It is asked
// where all are fetched, for which its size is enough to know, and once more where all are widened.
#pragma once

#include "kit/octet.cuh"
#include "kit/row_operand.cuh"

namespace weft::inline WEFT_TARGET::kit {

// `kPiece`: elements that lie side by side in memory, and are moved at once: all of an octet, four, two or one.
// `Part`: which row and which of its pieces are the thread's, as RowPart and PiecePart say it.
template <int V, int kPiece = kOctet>
class SideSlice {
    static_assert(!fills_registers(V));

   public:
    static constexpr int kOctets = V, kPieces = V * kOctet / kPiece;
    // As they are stored, until widen(); then in fp32. Of a piece that is not there: 0, or what was there before.
    float at[V][kOctet];

    __device__ __forceinline__ void fill(float value) {
#pragma unroll
        for (int i = 0; i < V * kOctet; ++i) at[i / kOctet][i % kOctet] = value;
    }

    // The value that stands for all of the row of a single operand, `absent` for that of an absent one.
    template <class Part>
    __device__ __forceinline__ static float one(float absent, const Part& part, const RowOperand& from) {
        if (from.data == nullptr || !part.present) return absent;
        const std::int64_t at = part.offset(from);
        float value = absent;
        with_wide_type(from.dtype,
                       [&](auto* type) { value = to_float(static_cast<decltype(type)>(from.data)[at]); });
        return value;
    }

    // `policy`: none or an L2Policy.
    template <class Part, class... Policy>
    __device__ __forceinline__ void load_or(float absent, const Part& part, const RowOperand& from,
                                            Policy... policy) {
        if (from.single) return fill(one(absent, part, from));
        load(part, from, policy...);
    }
    // Of one that is there, a row and not one element.
    template <class Part, class... Policy>
    __device__ __forceinline__ void load(const Part& part, const RowOperand& from, Policy... policy) {
        load_from(address(part, from, part.offset(from)), part, from, policy...);
    }
    // Where load finds the thread's first piece of one that no index picks.
    template <class Part>
    __device__ __forceinline__ static const char* find(const Part& part, const RowOperand& from) {
        return address(part, from, part.plain_offset(from));
    }
    template <class Part, class... Policy>
    __device__ __forceinline__ void load_from(const char* data, const Part& part, const RowOperand& from,
                                              Policy... policy) {
        if constexpr (kPiece < kOctet) fill(0.0f);
        if (from.dtype == DType::fp32) {
            fetch(part, reinterpret_cast<const float*>(data), policy...);
        } else {
            // Or fp16: what counts here is the size.
            fetch(part, reinterpret_cast<const bf16*>(data), policy...);
        }
    }
    __device__ __forceinline__ SideSlice& widen(const RowOperand& from) {
        widen(from.single ? DType::fp32 : from.dtype);
        return *this;
    }

    // Each value of all that is held becomes f of it, or of it and another's.
    template <class F>
    __device__ __forceinline__ void combine(const SideSlice& other, F f) {
#pragma unroll
        for (int i = 0; i < V * kOctet; ++i)
            at[i / kOctet][i % kOctet] = f(at[i / kOctet][i % kOctet], other.at[i / kOctet][i % kOctet]);
    }
    template <class F>
    __device__ __forceinline__ void change(F f) {
#pragma unroll
        for (int i = 0; i < V * kOctet; ++i) at[i / kOctet][i % kOctet] = f(at[i / kOctet][i % kOctet]);
    }

    // The elements of a piece.
    __device__ __forceinline__ void get(int piece, float (&to)[kPiece]) const {
#pragma unroll
        for (int i = 0; i < kPiece; ++i) to[i] = at[piece * kPiece / kOctet][piece * kPiece % kOctet + i];
    }

    // Tells L2 of what load_or will ask for, where it is not rows that others share, nor one request for each element.
    template <class Part>
    __device__ __forceinline__ static void announce(const Part& part, const RowOperand& later) {
        if constexpr (kPiece == kOctet) {
            if (later.single || later.stride == 0 || later.rows == RowsBy::picks) return;
            const bool wide = later.dtype == DType::fp32;
            const std::int64_t begin = part.offset(later) + part.first * kOctet;
            const char* from = static_cast<const char*>(later.data) + (wide ? begin * 4 : begin * 2);
            const int bytes = wide ? 4 : 2;
            part.template each<kOctet, V>([&](int, int index) { prefetch_l2(from + index * bytes); });
        }
    }

   private:
    template <class Part>
    __device__ __forceinline__ static const char* address(const Part& part, const RowOperand& from,
                                                          std::int64_t begin) {
        return part.template origin_of<kPiece>(from.data, begin, from.dtype == DType::fp32 ? 4 : 2);
    }
    template <class T, class Part, class... Policy>
    __device__ __forceinline__ void fetch(const Part& part, const T* from, Policy... policy) {
        part.template each<kPiece, kPieces>([&](int piece, int index) {
            const auto words = load_words<kPiece>(from + index, policy...);
            const int first = piece * kPiece % kOctet;
            float* const to = &at[piece * kPiece / kOctet][sizeof(T) == 4 || kPiece == 1 ? first : first / 2];
            if constexpr (sizeof(words) < sizeof(float)) {
                *to = __uint_as_float(words.at[0]);
            } else {
                memcpy(to, &words, sizeof(words));
            }
        });
    }
    __device__ __forceinline__ void widen(DType stored) {
        if constexpr (kPiece > 1) return widen_octets(stored, at);
        with_wide_type(stored, [&](auto* type) {
            using T = std::remove_pointer_t<decltype(type)>;
            if constexpr (sizeof(T) == 2) {
                change([](float bits) {
                    return to_float(detail::from_raw<T>(static_cast<std::uint16_t>(__float_as_uint(bits))));
                });
            }
        });
    }
};

// What a thread holds of results, f(y), as `Out`. `begin`: where the row begins, in elements.
template <class Out, class Part, int V, int kPiece, class F>
__device__ __forceinline__ void store_pieces(const Part& part, const RowOperand& to, std::int64_t begin,
                                             const SideSlice<V, kPiece>& y, F f) {
    Out* out = part.template origin<kPiece, Out>(to.data, begin);
    part.template each<kPiece, SideSlice<V, kPiece>::kPieces>([&](int piece, int index) {
        float values[kPiece];
        y.get(piece, values);
#pragma unroll
        for (float& value : values) value = f(value);
        store_aligned(out + index, from_floats<Out>(values));
    });
}
// The same of 16 bits or fp32.
template <class Part, class Side>
__device__ __forceinline__ void store_wide(const Part& part, const RowOperand& to, std::int64_t begin,
                                           const Side& y) {
    with_wide_type(to.dtype, [&](auto* type) {
        store_pieces<std::remove_pointer_t<decltype(type)>>(part, to, begin, y,
                                                            [](float value) { return value; });
    });
}

}  // namespace weft::inline WEFT_TARGET::kit
