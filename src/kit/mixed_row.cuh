// The row of a mixed kernel: one kernel an op for all that uniform kernels (kit/row.cuh) do not take. Operands are of
// any dtype and any row, rows of any length, and need not begin where a vector may.
//
// A row is dealt to the threads of a Group in octets, eight neighbouring elements each, in turn: slot v of thread t is
// octet v·size + t. Octets are counted from an address of x that is a multiple of eight elements, so that those of a
// row which begins elsewhere are vectors too, all but the first and the last; of an operand that begins elsewhere than
// x, elements move one by one.
//
// Where registers hold a uniform row, shared memory holds a mixed one, in fp32. What is done to it is a chain of short
// loops over the thread's octets, each with one operand whose dtype is asked before the loop (load, widen, add, multiply,
// store): dtypes add up and do not multiply, and no loop asks anything. Copies (cp.async) bring a row all at once. A
// thread works only on octets that it brought itself: nobody waits for another. A row that shared memory does not hold
// comes in chunks, each time anew.
//
// Operands that rows share (weights, modulation) are read where they are used, and come from L1, which the copies go
// past; of others L2 is told beforehand.
#pragma once

#include "kit/ptx/cp_async.cuh"
#include "kit/row.cuh"

namespace weft::inline WEFT_TARGET::kit {

// How rows are held.
struct RowHold {
    int slots = 1;        // octets that a thread holds at a time
    bool ragged = false;  // some row is not whole octets, or begins where no vector may
};

// An octet of a row, of which the elements [from, to) are in it: of most that is all eight.
struct OctetPlace {
    int slot, octet, from, to;

    __device__ __forceinline__ bool whole() const { return from == 0 && to == kOctet; }
    __device__ __forceinline__ bool has(int i) const { return i >= from && i < to; }
    __device__ __forceinline__ bool there() const { return from < to; }
};

__device__ __forceinline__ int stored_bytes(DType dtype) {
    return dtype == DType::fp32 ? 4 : dtype == DType::bf16 || dtype == DType::fp16 ? 2 : 1;
}

// Elements [from, to) of an octet, one by one: those of another row are not touched. The others are 0.
template <class T>
__device__ __forceinline__ void load_singly(const T* from, const OctetPlace& place, float (&to)[kOctet]) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i) to[i] = place.has(i) ? to_float(from[i]) : 0.0f;
}
template <class T>
__device__ __forceinline__ void store_singly(T* to, const OctetPlace& place, const float (&from)[kOctet]) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
        if (place.has(i)) to[i] = from_float<T>(from[i]);
    }
}

// An operand's row for the thread's row of x.
struct OctetRow {
    // Where its octets begin, perhaps before its first element; null: every element is `fill`.
    char* data = nullptr;
    DType dtype = DType::fp32;
    bool aligned = true;  // its octets are vectors
    float fill = 0.0f;

    template <class T>
    __device__ __forceinline__ T* begin(const OctetPlace& place) const {
        return reinterpret_cast<T*>(data) + static_cast<std::int64_t>(place.octet) * kOctet;
    }
    // Stored as T.
    template <class T>
    __device__ __forceinline__ void load_floats(const OctetPlace& place, float (&to)[kOctet]) const {
        if (aligned && place.whole()) return to_floats(load_aligned<kOctet>(begin<const T>(place)), to);
        load_singly(begin<const T>(place), place, to);
    }
    template <class T>
    __device__ __forceinline__ void store_floats(const OctetPlace& place, const float (&from)[kOctet]) const {
        if (aligned && place.whole()) return store_aligned(begin<T>(place), from_floats<T>(from));
        store_singly(begin<T>(place), place, from);
    }
};

class MixedRow {
   public:
    const RowPart part;

    // `in`: x is the operand that octets are counted by.
    template <GroupScope kScope>
    __device__ __forceinline__ MixedRow(const Group<kScope>& group, const RowShape& shape,
                                        const RowPlaces& places, const RowHold& hold, const RowInput& in)
        : part(group, shape, &places), hold_(hold), in_(in) {
        if (hold.ragged) {
            const auto begin =
                reinterpret_cast<std::uintptr_t>(in.x.data) / static_cast<unsigned>(stored_bytes(in.x.dtype));
            shift_ = static_cast<int>((begin + static_cast<std::uintptr_t>(part.offset(in.x))) % kOctet);
        }
        octets_ = static_cast<int>((part.dim + shift_ + kOctet - 1) / kOctet);
        tail_ = static_cast<int>(part.dim + shift_ - std::int64_t{octets_ - 1} * kOctet);
        most_ = static_cast<int>((part.shape.dim + (hold.ragged ? kOctet - 1 : 0) + kOctet - 1) / kOctet);
    }

    // An absent operand is `fill` everywhere, and one of a single element is that.
    __device__ __forceinline__ OctetRow row_of(const RowOperand& from, float fill = 0.0f) const {
        OctetRow row{.dtype = from.dtype, .fill = fill};
        if (from.data == nullptr) return row;
        const std::int64_t at = part.offset(from);
        if (from.single) {
            if (part.present) row.fill = load_as(from.dtype, from.data, at);
            return row;
        }
        const int bytes = stored_bytes(from.dtype);
        row.data = static_cast<char*>(from.data) + (at - shift_) * bytes;
        row.aligned =
            !hold_.ragged || reinterpret_cast<std::uintptr_t>(row.data) % (bytes == 1 ? 8 : 16) == 0;
        return row;
    }

    // The first chunk of x, or of round(residual + gate · x) in the residual's dtype, which goes to residual_out too.
    // meanwhile() is called while what is loaded is on its way.
    template <class Meanwhile>
    __device__ __forceinline__ void load(Meanwhile meanwhile) {
        bring(0, meanwhile);
    }

    __device__ __forceinline__ bool is_whole() const { return hold_.slots * part.step >= most_; }

    // use() for each chunk of the row, while it is held.
    template <class F>
    __device__ __forceinline__ void each_chunk(F use) {
#pragma unroll 1
        for (int i = 0; i * hold_.slots * part.step < most_; ++i) {
            if (i != chunk_) bring(i, [] {});
            use();
        }
    }

    // A chunk has two areas: what is held, and room for the residual on its way or for results beside it.
    enum Area : int { kHeld, kBeside };

    // use(place, values) for each octet of the chunk that is the thread's.
    template <class F>
    __device__ __forceinline__ void each(F use, int area = kHeld) const {
        each_place([&](const OctetPlace& place) {
            float x[kOctet];
            get(place, x, area);
            use(place, x);
        });
    }
    // The same for every slot that some thread of the block has, all together. Of a slot that the calling one lacks the
    // place is not there, and the values are 0.
    template <class F>
    __device__ __forceinline__ void each_slot(F use, int area) const {
        int octet = part.first + chunk_ * hold_.slots * part.step;
#pragma unroll 1
        for (int slot = 0; slot < hold_.slots && octet - part.first < most_; ++slot, octet += part.step) {
            const OctetPlace at = place(slot, octet);
            float x[kOctet] = {};
            if (at.there()) get(at, x, area);
            use(at, x);
        }
    }

    // The thread's part of the sum of f(x) over the row: two chains of additions, for latency and for accuracy.
    template <class F>
    __device__ __forceinline__ float sum(F f) {
        float even = 0, odd = 0;
        each_chunk([&] {
            each([&](const OctetPlace& place, const float (&x)[kOctet]) {
                if (place.whole()) {
#pragma unroll
                    for (int i = 0; i < kOctet; ++i) (i % 2 == 0 ? even : odd) += f(x[i]);
                } else {
#pragma unroll
                    for (int i = 0; i < kOctet; ++i)
                        (i % 2 == 0 ? even : odd) += place.has(i) ? f(x[i]) : 0.0f;
                }
            });
        });
        return even + odd;
    }

    // x = f(x, the operand's element) for all of the chunk; the results go to an area.
    template <class F>
    __device__ __forceinline__ void combine(const OctetRow& operand, int from, int to, F f) const {
        const auto each_with = [&](auto load_operand) {
            each_place([&](const OctetPlace& place) {
                float x[kOctet], y[kOctet];
                load_operand(place, y);
                get(place, x, from);
#pragma unroll
                for (int i = 0; i < kOctet; ++i) x[i] = f(x[i], y[i]);
                put(place, x, to);
            });
        };
        if (operand.data == nullptr) {
            return each_with([&](const OctetPlace&, float (&y)[kOctet]) {
#pragma unroll
                for (float& element : y) element = operand.fill;
            });
        }
        with_wide_type(operand.dtype, [&](auto* type) {
            using T = std::remove_pointer_t<decltype(type)>;
            each_with([&](const OctetPlace& place, float (&y)[kOctet]) {
                operand.template load_floats<T>(place, y);
            });
        });
    }

    // Tells L2 of an operand that is read later, unless all rows share it.
    __device__ __forceinline__ void announce(const RowOperand& later) const {
        if (later.data == nullptr || later.single) return;
        if (later.stride == 0 && later.run_stride == 0 && !part.shape.scattered) return;
        const OctetRow row = row_of(later);
        each_place([&](const OctetPlace& place) {
            prefetch_l2(row.data +
                        static_cast<std::int64_t>(place.octet) * (kOctet * stored_bytes(later.dtype)));
        });
    }

   private:
    template <class F>
    __device__ __forceinline__ void each_place(F use) const {
        int octet = part.first + chunk_ * hold_.slots * part.step;
#pragma unroll 1
        for (int slot = 0; slot < hold_.slots && octet < octets_; ++slot, octet += part.step)
            use(place(slot, octet));
    }
    __device__ __forceinline__ OctetPlace place(int slot, int octet) const {
        const int last = octets_ - 1;
        return {slot, octet, octet == 0 ? shift_ : 0, octet < last ? kOctet : octet == last ? tail_ : 0};
    }

    // An octet's place in shared memory: its second half lies a block's width further.
    __device__ __forceinline__ float4* shared(const OctetPlace& place, int area) const {
        const int slot = area * hold_.slots + place.slot;
        return dynamic_shared<float4>() + slot * 2 * static_cast<int>(blockDim.x) + threadIdx.x;
    }
    __device__ __forceinline__ void get(const OctetPlace& place, float (&x)[kOctet], int area) const {
        const float4* from = shared(place, area);
        const float4 halves[2] = {from[0], from[blockDim.x]};
        memcpy(x, halves, sizeof(x));
    }
    __device__ __forceinline__ void put(const OctetPlace& place, const float (&x)[kOctet], int area) const {
        float4 halves[2];
        memcpy(halves, x, sizeof(x));
        float4* to = shared(place, area);
        to[0] = halves[0];
        to[blockDim.x] = halves[1];
    }

    // A chunk's copies, as they are stored, to where its values will be; what no copy can bring is widened at once.
    __device__ __forceinline__ void stage(const OctetRow& from, int area) const {
        with_wide_type(from.dtype, [&](auto* type) {
            using T = std::remove_pointer_t<decltype(type)>;
            each_place([&](const OctetPlace& place) {
                if (from.aligned && place.whole()) {
                    float4* to = shared(place, area);
                    const auto* octet = reinterpret_cast<const char*>(from.template begin<const T>(place));
                    cp_async_16(to, octet);
                    if constexpr (sizeof(T) == 4) cp_async_16(to + blockDim.x, octet + 16);
                } else {
                    float x[kOctet];
                    load_singly(from.template begin<const T>(place), place, x);
                    put(place, x, area);
                }
            });
        });
    }
    __device__ __forceinline__ void widen(const OctetRow& from, int area) const {
        with_wide_type(from.dtype, [&](auto* type) {
            using T = std::remove_pointer_t<decltype(type)>;
            if constexpr (sizeof(T) == 2) {
                each_place([&](const OctetPlace& place) {
                    if (!from.aligned || !place.whole()) return;
                    Words<T, kOctet> words;
                    const float4 raw = *shared(place, area);
                    memcpy(&words, &raw, sizeof(words));
                    float x[kOctet];
                    to_floats(as_vector<T, kOctet>(words), x);
                    put(place, x, area);
                });
            }
        });
    }

    // What a chunk is to hold. Sums that were stored once come from where they are: x or the residual may have been there.
    template <class Meanwhile>
    __device__ __forceinline__ void bring(int chunk, Meanwhile meanwhile) {
        const bool stored = chunk < brought_ && in_.residual_out.data != nullptr;
        const bool sum = in_.residual.data != nullptr && !stored;
        const OctetRow x = row_of(stored ? in_.residual_out : in_.x), residual = row_of(in_.residual);
        chunk_ = chunk;
        stage(x, kHeld);
        if (sum) stage(residual, kBeside);
        cp_async_commit();
        meanwhile();
        cp_async_wait<0>();
        widen(x, kHeld);
        if (sum) {
            widen(residual, kBeside);
            add(residual.dtype, row_of(in_.gate, 1.0f), row_of(in_.residual_out));
        }
        if (chunk == brought_) ++brought_;
    }
    __device__ __forceinline__ void add(DType dtype, const OctetRow& gate, const OctetRow& to) const {
        with_wide_type(dtype, [&](auto* type) {
            using T = std::remove_pointer_t<decltype(type)>;
            each_place([&](const OctetPlace& place) {
                float x[kOctet], r[kOctet], g[kOctet];
#pragma unroll
                for (float& element : g) element = gate.fill;
                if (gate.data != nullptr) {
                    with_wide_type(gate.dtype, [&](auto* gates) {
                        gate.template load_floats<std::remove_pointer_t<decltype(gates)>>(place, g);
                    });
                }
                get(place, x, kHeld);
                get(place, r, kBeside);
#pragma unroll
                for (int i = 0; i < kOctet; ++i) x[i] = round_through<T>(fmaf(x[i], g[i], r[i]));
                if (to.data != nullptr) to.template store_floats<T>(place, x);
                put(place, x, kHeld);
            });
        });
    }

    const RowHold hold_;
    const RowInput& in_;
    int shift_ = 0;             // elements of the first octet that are before the row
    int octets_, tail_, most_;  // of the row; where it ends in the last one; of any row
    int chunk_ = 0, brought_ = 0;
};

}  // namespace weft::inline WEFT_TARGET::kit
