// The row of a mixed kernel: one kernel an op for all that uniform kernels (kit/row.cuh) do not take. Operands are of
// any dtype and any row, rows of any length, and need not begin where a vector may.
//
// A row is dealt to the threads of a Group in octets, eight neighbouring elements each, in turn: slot v of thread t is
// octet v·size + t. Octets are counted from an address of x that is a multiple of eight elements, so that those of a
// row which begins elsewhere are vectors too, all but the first and the last; of an operand that begins elsewhere than
// x, elements move one by one.
//
// Where registers hold a uniform row, shared memory holds a mixed one, as it was stored. Copies (cp.async) bring all of
// it at once and no thread waits for a register; the loops over its slots are not written out, so a dtype is asked
// again for each octet, which costs a few instructions for eight elements, and the code is short. A thread reads only
// what it brought itself: nobody waits for another.
//
// Operands that come after the statistics (weights, modulation) are read where they are used. Rows that many share come
// from L1, which the copies go past; of others L2 is told beforehand.
#pragma once

#include "kit/ptx/cp_async.cuh"
#include "kit/row.cuh"

namespace weft::inline WEFT_TARGET::kit {

// How rows are held.
struct RowHold {
    int slots = 0;        // octets of a thread: all that it has of a row, or 0, and it reads the row again
    int parts = 1;        // of 16 bytes, for an octet: what x and the residual's sums need
    bool ragged = false;  // some row is not whole octets, or begins where no vector may
};

// Eight elements as they lie in memory, the narrower the fewer words.
struct alignas(16) RawOctet {
    unsigned at[kOctet];
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

// From fp32 to what a dtype stores, and back.
__device__ __forceinline__ void widen(const RawOctet& raw, DType dtype, float (&to)[kOctet]) {
    with_wide_type(dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        Words<T, kOctet> words;
        memcpy(&words, &raw, sizeof(words));
        to_floats(as_vector<T, kOctet>(words), to);
    });
}
__device__ __forceinline__ RawOctet narrow(const float (&from)[kOctet], DType dtype) {
    RawOctet raw;
    with_type(dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        const Words<T, kOctet> words = as_words(from_floats<T>(from));
        memcpy(&raw, &words, sizeof(words));
    });
    return raw;
}

// The elements of an octet that are in their row, one by one; a pointer says where the octet begins. Functions of
// their own: they serve every operand, and whole octets do without.
[[gnu::noinline]] inline __device__ RawOctet read_singly(const char* from, bool wide, OctetPlace place) {
    RawOctet raw;
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
        const bool there = place.has(i);
        if (wide) {
            raw.at[i] = there ? reinterpret_cast<const unsigned*>(from)[i] : 0;
        } else {
            const unsigned half = there ? reinterpret_cast<const unsigned short*>(from)[i] : 0;
            raw.at[i / 2] = i % 2 == 0 ? half : raw.at[i / 2] | half << 16;
        }
    }
    return raw;
}
[[gnu::noinline]] inline __device__ void write_singly(char* to, int bytes, OctetPlace place, RawOctet raw) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
        if (!place.has(i)) continue;
        if (bytes == 4) {
            reinterpret_cast<unsigned*>(to)[i] = raw.at[i];
        } else if (bytes == 2) {
            reinterpret_cast<unsigned short*>(to)[i] = static_cast<unsigned short>(raw.at[i / 2] >> (i % 2 * 16));
        } else {
            reinterpret_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(raw.at[i / 4] >> (i % 4 * 8));
        }
    }
}

// An operand's row for the thread's row of x.
struct OctetRow {
    char* data;    // where its octets begin, perhaps before its first element; null: every element is `fill`
    DType dtype;
    bool aligned;  // its octets are vectors
    float fill;

    __device__ __forceinline__ char* begin(const OctetPlace& place) const {
        return data + static_cast<std::int64_t>(place.octet) * (kOctet * stored_bytes(dtype));
    }
    __device__ __forceinline__ RawOctet read(const OctetPlace& place) const {
        const char* from = begin(place);
        if (!aligned || !place.whole()) return read_singly(from, dtype == DType::fp32, place);
        uint4 words[2] = {load(reinterpret_cast<const uint4*>(from)), {}};
        if (dtype == DType::fp32) words[1] = load(reinterpret_cast<const uint4*>(from) + 1);
        RawOctet raw;
        memcpy(&raw, words, sizeof(raw));
        return raw;
    }
    __device__ __forceinline__ void load_floats(const OctetPlace& place, float (&to)[kOctet]) const {
        if (data != nullptr) return widen(read(place), dtype, to);
#pragma unroll
        for (float& element : to) element = fill;
    }
    __device__ __forceinline__ void write(const OctetPlace& place, const RawOctet& raw) const {
        char* to = begin(place);
        const int bytes = stored_bytes(dtype);
        if (!aligned || !place.whole()) return write_singly(to, bytes, place, raw);
        uint4 words[2];
        memcpy(words, &raw, sizeof(raw));
        if (bytes == 1) return store(reinterpret_cast<uint2*>(to), uint2{words[0].x, words[0].y});
        store(reinterpret_cast<uint4*>(to), words[0]);
        if (bytes == 4) store(reinterpret_cast<uint4*>(to) + 1, words[1]);
    }
};

class MixedRow {
   public:
    const RowPart part;

    // `x`: the operand that octets are counted by.
    template <GroupScope kScope>
    __device__ __forceinline__ MixedRow(const Group<kScope>& group, const RowShape& shape,
                                        const RowPlaces& places, const RowHold& hold, const RowOperand& x)
        : part(group, shape, &places), hold_(hold) {
        if (hold.ragged) {
            const auto begin = reinterpret_cast<std::uintptr_t>(x.data) / (x.dtype == DType::fp32 ? 4 : 2);
            shift_ = static_cast<int>((begin + static_cast<std::uintptr_t>(part.offset(x))) % kOctet);
        }
        octets_ = octets_of(part.dim);
        tail_ = static_cast<int>(part.dim + shift_ - std::int64_t{octets_ - 1} * kOctet);
    }

    // An absent operand is `fill` everywhere, and one of a single element is that.
    __device__ __forceinline__ OctetRow row_of(const RowOperand& from, float fill = 0.0f) const {
        OctetRow row{nullptr, from.dtype, true, fill};
        if (from.data == nullptr) return row;
        const std::int64_t at = part.offset(from);
        if (from.single) {
            if (part.present) row.fill = load_as(from.dtype, from.data, at);
            return row;
        }
        const int bytes = stored_bytes(from.dtype);
        row.data = static_cast<char*>(from.data) + (at - shift_) * bytes;
        row.aligned = !hold_.ragged || reinterpret_cast<std::uintptr_t>(row.data) % (bytes == 1 ? 8 : 16) == 0;
        return row;
    }

    // use(place) for each octet of the thread.
    template <class F>
    __device__ __forceinline__ void each_place(F use) const {
        int slot = 0;
#pragma unroll 1
        for (int octet = part.first; octet < octets_; octet += part.step) use(place(slot++, octet));
    }

    // Holds x, or round(residual + gate · x) in the residual's dtype, which goes to residual_out too; a row that is not
    // held has residual_out. meanwhile() is called while what is loaded is on its way.
    template <class Meanwhile>
    __device__ __forceinline__ void load(const RowInput& in, Meanwhile meanwhile) {
        const OctetRow x = row_of(in.x), residual = row_of(in.residual);
        const bool sum = in.residual.data != nullptr;
        if (hold_.slots > 0) {
            stage(x, 0, hold_.parts);
            if (sum) stage(residual, hold_.parts, residual_parts(residual));
            cp_async_commit();
            meanwhile();
            cp_async_wait<0>();
        } else {
            meanwhile();
        }
        held_ = x;
        if (sum) add(residual, row_of(in.gate, 1.0f), row_of(in.residual_out));
    }

    __device__ __forceinline__ void get(const OctetPlace& place, float (&x)[kOctet]) const {
        widen(hold_.slots > 0 ? held(place, 0, hold_.parts, held_.dtype) : held_.read(place), held_.dtype, x);
    }

    // use(place, values) for each octet of the thread.
    template <class F>
    __device__ __forceinline__ void each(F use) const {
        each_place([&](const OctetPlace& place) {
            float x[kOctet];
            get(place, x);
            use(place, x);
        });
    }

    // use(place, values) for every slot that some thread of the block has, all together. Of a slot that the calling one
    // lacks, the place is not there and the values are 0.
    template <class F>
    __device__ __forceinline__ void each_slot(F use) const {
        const int all = octets_of(part.shape.dim) + (hold_.ragged ? 1 : 0);  // of any row
        int slot = 0;
#pragma unroll 1
        for (int octet = part.first; octet - part.first < all; octet += part.step) {
            const OctetPlace at = place(slot++, octet);
            float x[kOctet] = {};
            if (at.there()) get(at, x);
            use(at, x);
        }
    }

    // The thread's part of the sum of f(x) over the row: two chains of additions, for latency and for accuracy.
    template <class F>
    __device__ __forceinline__ float sum(F f) const {
        float even = 0, odd = 0;
        each([&](const OctetPlace& place, const float (&x)[kOctet]) {
            if (place.whole()) {
#pragma unroll
                for (int i = 0; i < kOctet; ++i) (i % 2 == 0 ? even : odd) += f(x[i]);
            } else {
#pragma unroll
                for (int i = 0; i < kOctet; ++i) (i % 2 == 0 ? even : odd) += place.has(i) ? f(x[i]) : 0.0f;
            }
        });
        return even + odd;
    }

    // Tells L2 of an operand that is read later, unless all rows share it.
    __device__ __forceinline__ void announce(const RowOperand& later, const OctetRow& row) const {
        if (row.data == nullptr) return;
        if (later.stride == 0 && later.run_stride == 0 && !part.shape.scattered) return;
        each_place([&](const OctetPlace& place) { prefetch_l2(row.begin(place)); });
    }

   private:
    __device__ __forceinline__ int octets_of(std::int64_t dim) const {
        return static_cast<int>((dim + shift_ + kOctet - 1) / kOctet);
    }
    __device__ __forceinline__ OctetPlace place(int slot, int octet) const {
        const int last = octets_ - 1;
        return {slot, octet, octet == 0 ? shift_ : 0, octet < last ? kOctet : octet == last ? tail_ : 0};
    }
    __device__ __forceinline__ static int residual_parts(const OctetRow& residual) {
        return residual.dtype == DType::fp32 ? 2 : 1;
    }

    // Where the thread's slots of an operand are: those of all operands before it have `before` parts.
    __device__ __forceinline__ uint4* shared(const OctetPlace& place, int before, int parts) const {
        return dynamic_shared<uint4>() +
               (before * hold_.slots + place.slot * parts) * static_cast<int>(blockDim.x) + threadIdx.x;
    }
    __device__ __forceinline__ RawOctet held(const OctetPlace& place, int before, int parts, DType dtype) const {
        const uint4* from = shared(place, before, parts);
        const uint4 words[2] = {from[0], dtype == DType::fp32 ? from[blockDim.x] : uint4{}};
        RawOctet raw;
        memcpy(&raw, words, sizeof(raw));
        return raw;
    }
    __device__ __forceinline__ void hold(const OctetPlace& place, int before, int parts, const RawOctet& raw,
                                         DType dtype) const {
        uint4 words[2];
        memcpy(words, &raw, sizeof(raw));
        uint4* to = shared(place, before, parts);
        to[0] = words[0];
        if (dtype == DType::fp32) to[blockDim.x] = words[1];
    }

    __device__ __forceinline__ void stage(const OctetRow& from, int before, int parts) const {
        each_place([&](const OctetPlace& place) {
            if (from.aligned && place.whole()) {
                uint4* to = shared(place, before, parts);
                cp_async_16(to, from.begin(place));
                if (from.dtype == DType::fp32) cp_async_16(to + blockDim.x, from.begin(place) + 16);
            } else {
                hold(place, before, parts, from.read(place), from.dtype);
            }
        });
    }

    // A gate is most often a row that many share, and comes from a cache.
    __device__ __forceinline__ void add(const OctetRow& residual, const OctetRow& gate, const OctetRow& to) {
        each_place([&](const OctetPlace& place) {
            float total[kOctet], r[kOctet], g[kOctet];
            get(place, total);
            widen(hold_.slots > 0
                      ? held(place, hold_.parts, residual_parts(residual), residual.dtype)
                      : residual.read(place),
                  residual.dtype, r);
            gate.load_floats(place, g);
#pragma unroll
            for (int i = 0; i < kOctet; ++i) total[i] = fmaf(total[i], g[i], r[i]);
            const RawOctet raw = narrow(total, residual.dtype);
            if (to.data != nullptr) to.write(place, raw);
            if (hold_.slots > 0) hold(place, 0, hold_.parts, raw, residual.dtype);
        });
        held_.dtype = residual.dtype;
        if (hold_.slots == 0) held_ = to;
    }

    const RowHold hold_;
    int shift_ = 0;     // elements of the first octet that are before the row
    int octets_, tail_;  // of the row; and where it ends in the last one
    OctetRow held_{};
};

}  // namespace weft::inline WEFT_TARGET::kit
