// The row of a mixed kernel: two kernels an op for all that uniform kernels (kit/row.cuh) do not take. Operands are of
// any dtype and any row, rows of any length, and need not begin where a vector may.
//
// A row is dealt to the threads of a Group in octets, eight neighbouring elements each, in turn: slot v of thread t is
// octet v·size + t. Octets are counted from an address of x that is a multiple of eight elements, so that those of a
// row which begins elsewhere are vectors too, all but the first and the last; of an operand that begins elsewhere than
// x, elements move one by one.
//
// A thread holds kOctets octets of fp32 in registers. Those of the row, and of a residual, are all on their way together, as
// they are stored, for which their size is enough to know; they are widened later, for which their dtype is asked.
// Arithmetic is on fp32 and asks nothing. All that follows takes one octet after the other, by one copy of its code, and
// fetches what the octet is combined with there and then, from caches: so dtypes add up and do not multiply, and registers
// are left for other rows. A row that its threads cannot hold comes in chunks, each time anew.
#pragma once

#include "kit/octet.cuh"
#include "kit/row.cuh"

namespace weft::inline WEFT_TARGET::kit {

// `kRagged`: some row is not whole octets, or begins where no vector may.
template <bool kRagged>
class MixedRow {
   public:
    const RowPart part;

    // `out`: the operand that octets are counted by.
    template <GroupScope kScope>
    __device__ __forceinline__ MixedRow(const Group<kScope>& group, const RowShape& shape,
                                        const RowPlaces& places, const RowInput& in, const RowOperand& out)
        : part(group, shape, &places, false), places_(places), in_(in), out_(out) {
        if (kRagged) {
            const auto begin =
                reinterpret_cast<std::uintptr_t>(out.data) / static_cast<unsigned>(stored_bytes(out.dtype));
            shift_ = static_cast<int>((begin + static_cast<std::uintptr_t>(part.offset(out))) % kOctet);
        }
        octets_ = static_cast<int>((part.dim + shift_ + kOctet - 1) / kOctet);
        tail_ = static_cast<int>(part.dim + shift_ - std::int64_t{octets_ - 1} * kOctet);
        whole_begin_ = shift_ > 0 ? 1 : 0;
        whole_end_ = tail_ < kOctet ? octets_ - 1 : octets_;
        most_ = static_cast<int>((part.shape.dim + (kRagged ? kOctet - 1 : 0) + kOctet - 1) / kOctet);
    }

    // The first chunk of x, or of round(residual + gate · x) in the residual's dtype, which goes to residual_out too.
    __device__ __forceinline__ void load() {
        bring(0, false);
        brought_ = 1;
    }

    // use() for each chunk of the row, while it is held.
    template <class F>
    __device__ __forceinline__ void each_chunk(F use) {
#pragma unroll 1
        for (int i = 0; i * kOctets * part.step < most_; ++i) {
            if (i != chunk_) [[unlikely]] {
                Octets octets;  // in memory, and so not the row itself
                bring_again(part.shape, places_, in_, out_, i, i < brought_, octets);
                held_ = octets;
                chunk_ = i;
                brought_ = max(brought_, i + 1);
            }
            use();
        }
    }

    // use(place, values) for each octet of the chunk that is the thread's.
    template <class F>
    __device__ __forceinline__ void each(F use) const {
        each_place([&](int v, const OctetPlace& place) { use(place, held_.at[v]); });
    }
    // The same for every slot, one after the other, by all threads of the block together: where the calling one has no octet,
    // no element is in its place.
    template <class F>
    __device__ __forceinline__ void in_turn(F use) {
        kit::in_turn(held_.at, [&](int v, float (&x)[kOctet]) { use(place_of(octet_of(v)), x); });
    }

    // The thread's part of the sum of f(x) over the row: two chains of additions, for latency and for accuracy.
    template <class F>
    __device__ __forceinline__ float sum(F f) {
        float even = 0, odd = 0;
        each_chunk([&] {
            each([&](const OctetPlace& place, const float (&x)[kOctet]) {
#pragma unroll
                for (int i = 0; i < kOctet; ++i) (i % 2 == 0 ? even : odd) += place.has(i) ? f(x[i]) : 0.0f;
            });
        });
        return even + odd;
    }

    // The octet of an operand that is there, widened; elements that are not in its place may be anything.
    __device__ __forceinline__ void fetch(const RowOperand& from, const OctetPlace& place,
                                          float (&to)[kOctet]) const {
        if (from.single) return fill_octet(load_as(from.dtype, from.data, part.offset(from)), to);
        const OctetRow row = row_of(from);
        if (from.dtype == DType::fp32) return fetch_octet<true>(row, place, to);
        float octet[1][kOctet];
        fetch_octet<false>(row, place, octet[0]);
        if (kRagged && row.past != 0) to_front(row, place.octet, octet[0]);
        widen_octets(from.dtype, octet);
#pragma unroll
        for (int i = 0; i < kOctet; ++i) to[i] = octet[0][i];
    }
    // Stores those elements of an octet that are in its place, times `factor`, rounded once.
    __device__ __forceinline__ void store(const RowOperand& to, const OctetPlace& place,
                                          const float (&values)[kOctet], float factor = 1.0f) const {
        const OctetRow row = row_of(to);
        float y[kOctet];
#pragma unroll
        for (int i = 0; i < kOctet; ++i) y[i] = values[i] * factor;
        with_type(to.dtype, [&](auto* type) { put<std::remove_pointer_t<decltype(type)>>(row, place, y); });
    }

    // Tells L2 of an operand that is read later, unless rows share it.
    __device__ __forceinline__ void announce(const RowOperand& later) const {
        if (later.data == nullptr || later.single) return;
        if (later.stride == 0 && later.rows == RowsBy::strides) return;
        const OctetRow row = row_of(later);
        const int bytes = kOctet * stored_bytes(later.dtype);
        each_place([&](int, const OctetPlace& place) {
            prefetch_l2(row.data + static_cast<std::int64_t>(place.octet) * bytes);
        });
    }

   private:
    // Of an operand that has more elements than one.
    __device__ __forceinline__ OctetRow row_of(const RowOperand& from) const {
        const int bytes = stored_bytes(from.dtype);
        OctetRow row{.data = static_cast<char*>(from.data) + (part.offset(from) - shift_) * bytes,
                     .dtype = from.dtype};
        if (kRagged)
            row.past =
                static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(row.data) % (bytes == 1 ? 8 : 16));
        return row;
    }

    __device__ __forceinline__ int octet_of(int slot) const {
        return part.first + (chunk_ * kOctets + slot) * part.step;
    }
    __device__ __forceinline__ bool is_whole_octet(int octet) const {
        return (!kRagged || octet >= whole_begin_) && octet < whole_end_;
    }
    __device__ __forceinline__ OctetPlace place_of(int octet) const {
        if (is_whole_octet(octet)) return OctetPlace::whole(octet);
        if (!kRagged || octet >= octets_) return {octet, 0, false};
        const unsigned mask = octet == 0 ? 0xff << shift_ : 0xff;
        return {octet, octet == octets_ - 1 ? mask & 0xff >> (kOctet - tail_) : mask, false};
    }
    // use(slot, place) for each octet of the chunk that is the thread's: first of all whole ones, then of the others.
    template <class F>
    __device__ __forceinline__ void each_place(F use) const {
#pragma unroll
        for (int v = 0; v < kOctets; ++v) {
            if (is_whole_octet(octet_of(v))) use(v, OctetPlace::whole(octet_of(v)));
        }
        if constexpr (kRagged) {
#pragma unroll
            for (int v = 0; v < kOctets; ++v) {
                const int octet = octet_of(v);
                if (octet < octets_ && !is_whole_octet(octet)) use(v, place_of(octet));
            }
        }
    }

    // Whether all of the vectors around an octet are of its row: `past` bytes before it, and the rest of 16 behind.
    template <bool kWide>
    __device__ __forceinline__ bool is_inside(int octet, unsigned past) const {
        const int first = octet * kOctet - shift_ - static_cast<int>(past) / (kWide ? 4 : 2);
        return is_whole_octet(octet) && first >= 0 && first + (kWide ? 12 : 16) <= static_cast<int>(part.dim);
    }
    // An operand's octet as it is stored: two-byte elements take the first half of `to`, or all of it where they are not
    // moved to the front yet (to_front). `policy`: none or an L2Policy, of an operand that comes from memory: what several
    // loads are put together from would wait for each octet.
    template <bool kWide, class... Policy>
    __device__ __forceinline__ void fetch_octet(const OctetRow& from, const OctetPlace& place,
                                                float (&to)[kOctet], Policy... policy) const {
        using Element = std::conditional_t<kWide, float, std::uint16_t>;
        constexpr bool kApart = kWide && sizeof...(policy) > 0;
        const char* octet = from.data + static_cast<std::int64_t>(place.octet) * kOctet * sizeof(Element);
        if (place.vector && (!kRagged || from.past == 0)) return fetch_whole<kWide>(octet, to, policy...);
        if (kRagged && !kApart && is_inside<kWide>(place.octet, from.past)) {
            unsigned words[kWide ? 12 : kOctet];
            fetch_around<kWide>(octet, from.past, words, policy...);
            if (kWide) move_to_front(words, from.past);
            return as_octet(words, to);
        }
        fetch_singly(reinterpret_cast<const Element*>(octet), place, to);
    }
    __device__ __forceinline__ void to_front(const OctetRow& from, int octet, float (&to)[kOctet]) const {
        if (!is_inside<false>(octet, from.past)) return;
        unsigned words[kOctet];
#pragma unroll
        for (int i = 0; i < kOctet; ++i) words[i] = __float_as_uint(to[i]);
        move_to_front(words, from.past);
        as_octet(words, to);
    }
    // All octets of the chunk, on their way together; and widened.
    __device__ __forceinline__ void ask(const OctetRow& from, L2Policy policy, Octets& to) const {
        if (from.dtype == DType::fp32) {
            each_place(
                [&](int v, const OctetPlace& place) { fetch_octet<true>(from, place, to.at[v], policy); });
        } else {
            each_place(
                [&](int v, const OctetPlace& place) { fetch_octet<false>(from, place, to.at[v], policy); });
        }
    }
    __device__ __forceinline__ void widen(const OctetRow& from, Octets& octets) const {
        if (kRagged && from.past != 0 && from.dtype != DType::fp32) {
#pragma unroll
            for (int v = 0; v < kOctets; ++v) to_front(from, octet_of(v), octets.at[v]);
        }
        widen_octets(from.dtype, octets.at);
    }
    template <class T>
    __device__ __forceinline__ static void put(const OctetRow& to, const OctetPlace& place,
                                               const float (&from)[kOctet]) {
        T* octet = reinterpret_cast<T*>(to.data) + static_cast<std::int64_t>(place.octet) * kOctet;
        if (place.vector && to.past == 0) return store_aligned(octet, from_floats<T>(from));
#pragma unroll
        for (int i = 0; i < kOctet; ++i) {
            if (place.has(i)) octet[i] = from_float<T>(from[i]);
        }
    }

    // What a chunk is to hold. Sums that were stored once come from where they are: x or the residual may have been there.
    __device__ __forceinline__ void bring(int chunk, bool again) {
        const bool stored = again && in_.residual_out.data != nullptr;
        const L2Policy policy = l2_policy(in_.keep);
        const OctetRow x = row_of(stored ? in_.residual_out : in_.x);
        chunk_ = chunk;
        ask(x, policy, held_);
        if (stored || in_.residual.data == nullptr) return widen(x, held_);
        const OctetRow residual = row_of(in_.residual);
        Octets other;
        ask(residual, policy, other);
        widen(x, held_);
        widen(residual, other);
        add(other);
    }
    // One copy for all that want another chunk than the row's first.
    [[gnu::noinline]] __device__ static void bring_again(const RowShape& shape, const RowPlaces& places,
                                                         const RowInput& in, const RowOperand& out, int chunk,
                                                         bool again, Octets& octets) {
        MixedRow row(Group<GroupScope::any>{shape.lanes, shape.cluster}, shape, places, in, out);
        row.bring(chunk, again);
        octets = row.held_;
    }
    // What is held becomes residual + gate · x, as the residual's dtype stores it.
    __device__ __forceinline__ void add(Octets& residual) {
        in_turn([&](const OctetPlace& place, float (&x)[kOctet]) {
            float gate[kOctet];
            fill_octet(1.0f, gate);
            if (in_.gate.data != nullptr && place.mask != 0) fetch(in_.gate, place, gate);
            turn(residual.at, [&](float (&r)[kOctet]) {
#pragma unroll
                for (int i = 0; i < kOctet; ++i) x[i] = fmaf(x[i], gate[i], r[i]);
            });
            with_wide_type(in_.residual.dtype, [&](auto* type) {
                using T = std::remove_pointer_t<decltype(type)>;
#pragma unroll
                for (float& value : x) value = round_through<T>(value);
            });
            if (in_.residual_out.data != nullptr && place.mask != 0) store(in_.residual_out, place, x);
        });
    }

    const RowPlaces& places_;
    const RowInput& in_;
    const RowOperand& out_;
    int shift_ = 0;                // elements of the first octet that are before the row
    int octets_, tail_, most_;     // of the row; where it ends in the last one; of any row
    int whole_begin_, whole_end_;  // octets all of whose elements are in the row
    int chunk_ = 0, brought_ = 0;
    Octets held_;
};

}  // namespace weft::inline WEFT_TARGET::kit
