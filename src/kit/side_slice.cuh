// What a thread has of an operand whose dtype the kernel asks for where it runs: V vectors of eight elements of fp32 or
// 16 bits. It is asked where all are fetched, for which its size is enough to know, and once more where all are widened.
#pragma once

#include "kit/octet.cuh"
#include "kit/row_operand.cuh"

namespace weft::inline WEFT_TARGET::kit {

// `Part`: which row and which of its vectors are the thread's, as RowPart says it.
template <int V>
class SideSlice {
    static_assert(!fills_registers(V));

   public:
    // As they are stored, until widen(); then in fp32.
    float at[V][kOctet];

    // Whether one value stands for all of the operand's row, as `fill` does for that of an absent one.
    __device__ __forceinline__ static bool is_one(const RowOperand& from) {
        return from.data == nullptr || from.single;
    }
    template <class Part>
    __device__ __forceinline__ static float one(float fill, const Part& part, const RowOperand& from) {
        if (from.data == nullptr || !part.present) return fill;
        const std::int64_t at = part.offset(from);
        with_wide_type(from.dtype,
                       [&](auto* type) { fill = to_float(static_cast<decltype(type)>(from.data)[at]); });
        return fill;
    }

    // `policy`: none or an L2Policy.
    template <class Part, class... Policy>
    __device__ __forceinline__ void load_or(float fill, const Part& part, const RowOperand& from,
                                            Policy... policy) {
        if (is_one(from)) {
            const float value = one(fill, part, from);
#pragma unroll
            for (auto& octet : at) fill_octet(value, octet);
            return;
        }
        const std::int64_t begin = part.offset(from);
        if (from.dtype == DType::fp32) {
            fetch<float>(part, from.data, begin, policy...);
        } else {
            // Or fp16: what counts here is the size.
            fetch<bf16>(part, from.data, begin, policy...);
        }
    }
    __device__ __forceinline__ SideSlice& widen(const RowOperand& from) {
        widen_octets(is_one(from) ? DType::fp32 : from.dtype, at);
        return *this;
    }

    // Each value of all that is held becomes f of it.
    template <class F>
    __device__ __forceinline__ void change(F f) {
#pragma unroll
        for (auto& octet : at) {
#pragma unroll
            for (float& value : octet) value = f(value);
        }
    }

    // Tells L2 of what load_or will ask for, where it is not rows that others share.
    __device__ __forceinline__ static void announce(const RowPart& part, const RowOperand& later) {
        if (is_one(later) || later.stride == 0 || later.rows == RowsBy::picks) return;
        const bool wide = later.dtype == DType::fp32;
        const std::int64_t begin = part.offset(later) + part.first * kOctet;
        const char* from = static_cast<const char*>(later.data) + (wide ? begin * 4 : begin * 2);
        const int bytes = wide ? 4 : 2;
        part.each<kOctet, V>([&](int, int index) { prefetch_l2(from + index * bytes); });
    }

   private:
    template <class T, class Part, class... Policy>
    __device__ __forceinline__ void fetch(const Part& part, void* data, std::int64_t begin,
                                          Policy... policy) {
        const T* from = part.template origin<kOctet, const T>(data, begin);
        part.template each<kOctet, V>([&](int v, int index) {
            fetch_whole<sizeof(T) == 4>(reinterpret_cast<const char*>(from + index), at[v], policy...);
        });
    }
};

}  // namespace weft::inline WEFT_TARGET::kit
