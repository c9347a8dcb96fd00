// The sum of a row of 16-bit elements, two a load.
//
// Idea        A pair is one register of 32 bits. Both halves are widened before they are added.
// Change      Vectors of two.
// Prediction  Half as many loads as 04.
#include "ladder/reduce/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

template <class T>
__global__ void sum(const T* x, float* out, std::int64_t dim) {
    const T* row = x + blockIdx.x * dim;
    float part = 0.0f;
    for_row<2>(
        row, dim,
        [&](const T* vector) {
            const auto pair = *reinterpret_cast<const Pack<T, 2>*>(vector);
            part += static_cast<float>(pair.at[0]) + static_cast<float>(pair.at[1]);
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
