// The sum of a row of fp8 elements, in fp32.
//
// Idea        An fp8 number has 2 or 3 bits of fraction and no arithmetic of its own: it is widened first. e4m3 and
//             e5m2 differ in the conversion alone.
// Change      04 with elements of one byte. Collections accumulate in fp16 here, which 07 shows to be wrong.
// Prediction  A quarter of 02's bytes, but as many loads: far from the card's bandwidth.
#include "ladder/reduce/widened.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Reduce> kRung{
    +[](const Reduce& op, const DeviceInfo&) {
        return decline_sum(op, op.x.dtype == DType::fp8_e5m2 ? DType::fp8_e5m2 : DType::fp8_e4m3);
    },
    +[](const Reduce& op, Context& context) {
        op.x.dtype == DType::fp8_e5m2 ? launch_sum(kRung.name(), sum_elements<__nv_fp8_e5m2>, op, context)
                                      : launch_sum(kRung.name(), sum_elements<__nv_fp8_e4m3>, op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
