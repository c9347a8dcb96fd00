// The sum of a row in half precision, eight elements a load: wrong on purpose.
//
// Idea        The vector of eight is summed by halves as well: the fewer elements a thread adds one by one, the
//             smaller the error, but it stays an error of half precision.
// Change      06 with an accumulator of 16 bits.
// Prediction  No faster than its fp32 sibling, since memory is the bound; and wrong. A half holds 11 bits: from 2048
//             on it cannot count by ones, and a bfloat16, of 8 bits, not from 256 on.
// Right       reduce x=fp16[3,1] out=fp32[3]
// Wrong       reduce x=fp16[1,4099] out=fp32[1] --values constant
#include "ladder/reduce/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

// Rounds every sum of two to T: what a butterfly of T's own additions gives.
template <class T>
struct Rounded {
    __device__ float operator()(float a, float b) const { return static_cast<float>(static_cast<T>(a + b)); }
};

template <class T>
__global__ void sum(const T* x, float* out, std::int64_t dim) {
    const T* row = x + blockIdx.x * dim;
    T part = static_cast<T>(0.0f);
    for_row<8>(
        row, dim,
        [&](const T* vector) {
            const auto pack = *reinterpret_cast<const Pack<T, 8>*>(vector);
#pragma unroll
            for (const T one : pack.at) part = __hadd(part, one);
        },
        [&](std::int64_t i) { part = __hadd(part, row[i]); });
    const float all = block_all(static_cast<float>(part), 0.0f, Rounded<T>{});
    if (threadIdx.x == 0) out[blockIdx.x] = all;
}

const RegisterRung<Reduce> kRung{
    +[](const Reduce& op, const DeviceInfo&) {
        return decline_sum(op, op.x.dtype == DType::bf16 ? DType::bf16 : DType::fp16);
    },
    +[](const Reduce& op, Context& context) {
        op.x.dtype == DType::bf16 ? launch_sum(kRung.name(), sum<__nv_bfloat16>, op, context)
                                  : launch_sum(kRung.name(), sum<__half>, op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
