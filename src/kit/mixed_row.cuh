// The row of a mixed kernel: two kernels an op for what neither uniform kernels (kit/row.cuh) nor those of any rows
// (kit/any_row.cuh) take. Operands are of any dtype and any row, rows of any length, and need not begin where a vector may.
// They are long kernels, and a row takes several times as many instructions to begin.
//
// A row is dealt to the threads of a Group in octets, eight neighbouring elements each, in turn: slot v of thread t is
// octet v·size + t. Octets are counted from an address of x that is a multiple of eight elements, so that those of a
// row which begins elsewhere are vectors too, all but the first and the last; of an operand that begins elsewhere than
// x, elements move one by one.
//
// A thread holds kOctets octets of fp32 in registers, and as many beside them: the residual, or the operand that the row
// is combined with first, on their way together with the row; then results. An operand is fetched as it is stored, for
// which its size is enough to know, and widened later, for which its dtype is asked. Arithmetic is on fp32 and asks
// nothing. So dtypes add up and do not multiply. A row that its threads cannot hold comes in chunks, each time anew.
#pragma once

#include "kit/octet.cuh"
#include "kit/row.cuh"

namespace weft::inline WEFT_TARGET::kit {

// `kRagged`: some row is not whole octets, or begins where no vector may.
template <bool kRagged>
class MixedRow {
   public:
    RowPart part;

    // `in`: x is the operand that octets are counted by.
    template <GroupScope kScope>
    __device__ __forceinline__ MixedRow(const Group<kScope>& group, const RowShape& shape,
                                        const RowPlaces& places, const RowInput& in)
        : part(group, shape, &places, false), in_(in) {
        part.at.ask(shape);
        if (kRagged) {
            const auto begin =
                reinterpret_cast<std::uintptr_t>(in.x.data) / static_cast<unsigned>(stored_bytes(in.x.dtype));
            shift_ = static_cast<int>((begin + static_cast<std::uintptr_t>(part.offset(in.x))) % kOctet);
        }
        octets_ = static_cast<int>((part.dim + shift_ + kOctet - 1) / kOctet);
        tail_ = static_cast<int>(part.dim + shift_ - std::int64_t{octets_ - 1} * kOctet);
        whole_begin_ = shift_ > 0 ? 1 : 0;
        whole_end_ = tail_ < kOctet ? octets_ - 1 : octets_;
        most_ = static_cast<int>((part.shape.dim + (kRagged ? kOctet - 1 : 0) + kOctet - 1) / kOctet);
    }

    // An absent operand is `fill` everywhere, and one of a single element is that.
    __device__ __forceinline__ OctetRow row_of(const RowOperand& from, float fill = 0.0f) const {
        OctetRow row{.fill = fill};
        if (from.data == nullptr) return row;
        const std::int64_t at = part.offset(from);
        if (from.single) {
            if (part.present) row.fill = load_as(from.dtype, from.data, at);
            return row;
        }
        const int bytes = stored_bytes(from.dtype);
        row.data = static_cast<char*>(from.data) + (at - shift_) * bytes;
        row.dtype = from.dtype;
        row.aligned = !kRagged || reinterpret_cast<std::uintptr_t>(row.data) % (bytes == 1 ? 8 : 16) == 0;
        return row;
    }

    // The first chunk of x, or of round(residual + gate · x) in the residual's dtype, which goes to residual_out too.
    // `next`: what the row is combined with first, which is asked for on the way; it is `fill` where it is absent.
    __device__ __forceinline__ void load(const RowOperand& next, float fill) {
        bring(0, row_of(next, fill));
        asked_ = true;
    }

    __device__ __forceinline__ bool is_whole() const { return kOctets * part.step >= most_; }

    // use() for each chunk of the row, while it is held.
    template <class F>
    __device__ __forceinline__ void each_chunk(F use) {
#pragma unroll 1
        for (int i = 0; i * kOctets * part.step < most_; ++i) {
            if (i != chunk_) bring(i, {});
            use();
        }
    }

    // What was made of it, until the next chunk comes.
    __device__ __forceinline__ Octets& beside() { return beside_; }

    // use(place, values) for each octet of the chunk that is the thread's: of the row, or of what is beside it.
    template <class F>
    __device__ __forceinline__ void each(F use) const {
        each_of(held_, use);
    }
    template <class F>
    __device__ __forceinline__ void each_beside(F use) const {
        each_of(beside_, use);
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

    // beside() = f(the row's element, that of the operand that load() was told of): the first time it is there already.
    template <class F>
    __device__ __forceinline__ void combine_next(const RowOperand& next, float fill, F f) {
        if (!asked_) fetch(row_of(next, fill), beside_);
        asked_ = false;
        widen_octets(next.single ? DType::fp32 : next.dtype, beside_.at);
#pragma unroll
        for (int v = 0; v < kOctets; ++v) {
#pragma unroll
            for (int i = 0; i < kOctet; ++i) beside_.at[v][i] = f(held_.at[v][i], beside_.at[v][i]);
        }
    }
    // beside() = f(beside(), tanh of the operand's element).
    template <class F>
    __device__ __forceinline__ void combine_tanh(const OctetRow& from, F f) {
        in_turn(beside_.at, [&](int v, float (&y)[kOctet]) {
            if (octet_of(v) >= octets_) return;
            const OctetPlace place = place_of(octet_of(v));
#pragma unroll
            for (int i = 0; i < kOctet; ++i) {
                if (!place.has(i)) continue;
                float element = from.fill;
                if (from.data != nullptr)
                    element = load_as(from.dtype, from.data, std::int64_t{place.octet} * kOctet + i);
                y[i] = f(y[i], tanhf(element));
            }
        });
    }
    // f(slot, octet) for each of an operand's octets, one after the other.
    template <class F>
    __device__ __forceinline__ void each_octet_of(const OctetRow& from, F f) const {
        each_place(from.aligned, [&](int v, const OctetPlace& place) {
            float octet[1][kOctet];
            if (from.data == nullptr) {
                fill_octet(from.fill, octet[0]);
            } else {
                fetch_octet(from, place, octet[0]);
                widen_octets(from.dtype, octet);
            }
            f(v, octet[0]);
        });
    }

    // Stores what is beside the row, times `factor`, rounded once.
    __device__ __forceinline__ void store(const OctetRow& to, float factor) const {
        Octets y;
#pragma unroll
        for (int v = 0; v < kOctets; ++v) {
#pragma unroll
            for (int i = 0; i < kOctet; ++i) y.at[v][i] = beside_.at[v][i] * factor;
        }
        with_type(to.dtype, [&](auto* type) {
            using T = std::remove_pointer_t<decltype(type)>;
            each_place(to.aligned, [&](int v, const OctetPlace& place) { put<T>(to, place, y.at[v]); });
        });
    }

    // use(octet, its elements, values) for each slot beside the row, which is not ragged, by all threads of the block
    // together. Where the calling one has no octet, it has no element, and the values are 0.
    template <class F>
    __device__ __forceinline__ void each_slot(F use) {
        in_turn(beside_.at, [&](int v, float (&octet)[kOctet]) {
            const bool there = octet_of(v) < octets_;
#pragma unroll
            for (float& value : octet) value = there ? value : 0.0f;
            use(octet_of(v), there ? kOctet : 0, octet);
        });
    }

    // Tells L2 of an operand that is read later, unless rows share it.
    __device__ __forceinline__ void announce(const RowOperand& later) const {
        if (later.single) return;
        if (later.stride == 0 && later.rows == RowsBy::strides) return;
        const OctetRow row = row_of(later);
        const int bytes = kOctet * stored_bytes(later.dtype);
        each_place(true, [&](int, const OctetPlace& place) {
            prefetch_l2(row.data + static_cast<std::int64_t>(place.octet) * bytes);
        });
    }

   private:
    template <class F>
    __device__ __forceinline__ void each_of(const Octets& values, F use) const {
        each_place(true, [&](int v, const OctetPlace& place) { use(place, values.at[v]); });
    }
    __device__ __forceinline__ int octet_of(int slot) const {
        return part.first + (chunk_ * kOctets + slot) * part.step;
    }
    __device__ __forceinline__ bool is_whole_octet(int octet) const {
        return (!kRagged || octet >= whole_begin_) && octet < whole_end_;
    }

    // use(slot, place) for each octet of the chunk that is the thread's: first of all that are moved as vectors, which are
    // the whole ones if `vectors`; then of the others.
    template <class F>
    __device__ __forceinline__ void each_place(bool vectors, F use) const {
#pragma unroll
        for (int v = 0; v < kOctets; ++v) {
            if ((!kRagged || vectors) && is_whole_octet(octet_of(v))) use(v, OctetPlace::whole(octet_of(v)));
        }
        if constexpr (kRagged) {
#pragma unroll
            for (int v = 0; v < kOctets; ++v) {
                const int octet = octet_of(v);
                const bool done = vectors && is_whole_octet(octet);
                if (octet < octets_ && !done) use(v, place_of(octet));
            }
        }
    }
    // Of an octet that is not moved as one.
    __device__ __forceinline__ OctetPlace place_of(int octet) const {
        const unsigned mask = octet == 0 ? 0xff << shift_ : 0xff;
        return {octet, octet == octets_ - 1 ? mask & 0xff >> (kOctet - tail_) : mask, false};
    }

    // An operand's octet as it is stored: two-byte elements take the first half of `to`. `policy`: none or an L2Policy.
    template <class... Policy>
    __device__ __forceinline__ static void fetch_octet(const OctetRow& from, const OctetPlace& place,
                                                       float (&to)[kOctet], Policy... policy) {
        const bool wide = from.dtype == DType::fp32;
        const char* octet = from.data + static_cast<std::int64_t>(place.octet) * (wide ? 32 : 16);
        if (place.vector) {
            wide ? fetch_whole<true>(octet, to, policy...) : fetch_whole<false>(octet, to, policy...);
        } else if (wide) {
            fetch_singly(reinterpret_cast<const float*>(octet), place, to);
        } else {
            fetch_singly(reinterpret_cast<const std::uint16_t*>(octet), place, to);
        }
    }
    template <class... Policy>
    __device__ __forceinline__ void fetch(const OctetRow& from, Octets& to, Policy... policy) const {
        if (from.data == nullptr) {
#pragma unroll
            for (auto& octet : to.at) fill_octet(from.fill, octet);
            return;
        }
        each_place(from.aligned,
                   [&](int v, const OctetPlace& place) { fetch_octet(from, place, to.at[v], policy...); });
    }
    template <class T>
    __device__ __forceinline__ static void put(const OctetRow& to, const OctetPlace& place,
                                               const float (&from)[kOctet]) {
        T* octet = reinterpret_cast<T*>(to.data) + static_cast<std::int64_t>(place.octet) * kOctet;
        if (place.vector) return store_aligned(octet, from_floats<T>(from));
#pragma unroll
        for (int i = 0; i < kOctet; ++i) {
            if (place.has(i)) octet[i] = from_float<T>(from[i]);
        }
    }

    // What a chunk is to hold. Sums that were stored once come from where they are: x or the residual may have been there.
    // `next` is on its way beside it at the end.
    __device__ __forceinline__ void bring(int chunk, const OctetRow& next) {
        const bool stored = chunk < brought_ && in_.residual_out.data != nullptr;
        const bool sum = in_.residual.data != nullptr && !stored;
        const L2Policy policy = l2_policy(in_.keep);
        const OctetRow x = row_of(stored ? in_.residual_out : in_.x);
        const OctetRow beside = sum ? row_of(in_.residual) : next;
        chunk_ = chunk;
        asked_ = false;
        fetch(x, held_, policy);
        fetch(beside, beside_, policy);
        widen_octets(x.dtype, held_.at);
        if (sum) {
            widen_octets(beside.dtype, beside_.at);
            add(beside.dtype);
            fetch(next, beside_);
        }
        if (chunk == brought_) ++brought_;
    }
    // The sum of what is held and what is beside it, as the residual's dtype stores it.
    __device__ __forceinline__ void add(DType dtype) {
        if (in_.gate.data != nullptr) {
            each_octet_of(row_of(in_.gate), [&](int v, const float (&gate)[kOctet]) {
#pragma unroll
                for (int i = 0; i < kOctet; ++i)
                    held_.at[v][i] = fmaf(held_.at[v][i], gate[i], beside_.at[v][i]);
            });
        } else {
#pragma unroll
            for (int v = 0; v < kOctets; ++v) {
#pragma unroll
                for (int i = 0; i < kOctet; ++i) held_.at[v][i] += beside_.at[v][i];
            }
        }
        const OctetRow to = row_of(in_.residual_out);
        with_wide_type(dtype, [&](auto* type) {
            using T = std::remove_pointer_t<decltype(type)>;
#pragma unroll
            for (auto& octet : held_.at) {
#pragma unroll
                for (float& value : octet) value = round_through<T>(value);
            }
            if (to.data == nullptr) return;
            each_place(to.aligned, [&](int v, const OctetPlace& place) { put<T>(to, place, held_.at[v]); });
        });
    }

    const RowInput& in_;
    int shift_ = 0;                // elements of the first octet that are before the row
    int octets_, tail_, most_;     // of the row; where it ends in the last one; of any row
    int whole_begin_, whole_end_;  // octets all of whose elements are in the row
    int chunk_ = 0, brought_ = 0;
    Octets held_, beside_;
    bool asked_ = false;  // for the operand that load() was told of
};

}  // namespace weft::inline WEFT_TARGET::kit
