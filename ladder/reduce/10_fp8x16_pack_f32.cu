// The sum of a row of fp8 elements, sixteen a load.
//
// Idea        Sixteen elements are one vector of 16 bytes.
// Change      Vectors of sixteen.
// Prediction  Memory is the bound again, at a quarter of fp32's bytes; conversions are sixteen for each load and begin
//             to count.
#include "ladder/reduce/widened.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Reduce> kRung{
    +[](const Reduce& op, const DeviceInfo&) {
        return decline_sum(op, op.x.dtype == DType::fp8_e5m2 ? DType::fp8_e5m2 : DType::fp8_e4m3);
    },
    +[](const Reduce& op, Context& context) {
        op.x.dtype == DType::fp8_e5m2 ? launch_sum(kRung.name(), sum_vectors<__nv_fp8_e5m2>, op, context)
                                      : launch_sum(kRung.name(), sum_vectors<__nv_fp8_e4m3>, op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
