// The sum of a row of 16-bit elements, eight a load.
//
// Idea        Eight elements are one vector of 16 bytes, unpacked in registers.
// Change      Vectors of eight.
// Prediction  The top of the 16-bit rungs: bound by memory where rows are many.
#include "ladder/reduce/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

template <class T>
__global__ void sum(const T* x, float* out, std::int64_t dim) {
    const T* row = x + blockIdx.x * dim;
    float part = 0.0f;
    for_row<8>(
        row, dim,
        [&](const T* vector) {
            const auto pack = *reinterpret_cast<const Pack<T, 8>*>(vector);
#pragma unroll
            for (const T one : pack.at) part += static_cast<float>(one);
        },
        [&](std::int64_t i) { part += static_cast<float>(row[i]); });
    part = block_sum(part);
    if (threadIdx.x == 0) out[blockIdx.x] = part;
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
