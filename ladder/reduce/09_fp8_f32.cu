// The sum of a row of fp8 elements, in fp32.
//
// Idea        An fp8 number has 2 or 3 bits of fraction and no arithmetic of its own: it is widened first. e4m3 and
//             e5m2 differ in the conversion alone.
// Change      04 with elements of one byte. Collections accumulate in fp16 here, which 07 shows to be wrong.
// Prediction  A quarter of 02's bytes, but as many loads: far from the card's bandwidth.
#include "ladder/reduce/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

template <class T>
__global__ void sum(const T* x, float* out, std::int64_t dim) {
    const T* row = x + blockIdx.x * dim;
    float part = 0.0f;
    for (std::int64_t i = threadIdx.x; i < dim; i += kBlock) part += static_cast<float>(row[i]);
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
