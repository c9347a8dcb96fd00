// The sum of a row of fp8 elements, sixteen a load.
//
// Idea        Sixteen elements are one vector of 16 bytes.
// Change      Vectors of sixteen.
// Prediction  Memory is the bound again, at a quarter of fp32's bytes; conversions are sixteen for each load and begin
//             to count.
#include "ladder/reduce/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

template <class T>
__global__ void sum(const T* x, float* out, std::int64_t dim) {
    const T* row = x + blockIdx.x * dim;
    float part = 0.0f;
    for_row<16>(
        row, dim,
        [&](const T* vector) {
            const auto pack = *reinterpret_cast<const Pack<T, 16>*>(vector);
#pragma unroll
            for (const T one : pack.at) part += static_cast<float>(one);
        },
        [&](std::int64_t i) { part += static_cast<float>(row[i]); });
    part = block_sum(part);
    if (threadIdx.x == 0) out[blockIdx.x] = part;
}

const RegisterRung<Reduce> kRung{
    +[](const Reduce& op, const DeviceInfo&) {
        return decline_sum(op, op.x.dtype == DType::fp8_e5m2 ? DType::fp8_e5m2 : DType::fp8_e4m3);
    },
    +[](const Reduce& op, Context& context) {
        op.x.dtype == DType::fp8_e5m2 ? launch_sum(kRung.name(), sum<__nv_fp8_e5m2>, op, context)
                                      : launch_sum(kRung.name(), sum<__nv_fp8_e4m3>, op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
