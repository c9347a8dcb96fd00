// The sum of a row of 16-bit elements, eight a load.
//
// Idea        Eight elements are one vector of 16 bytes, unpacked in registers.
// Change      Vectors of eight (widened.cuh).
// Prediction  The top of the 16-bit rungs: bound by memory where rows are many.
#include "ladder/reduce/widened.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Reduce> kRung{
    +[](const Reduce& op, const DeviceInfo&) {
        return decline_sum(op, op.x.dtype == DType::bf16 ? DType::bf16 : DType::fp16);
    },
    +[](const Reduce& op, Context& context) {
        op.x.dtype == DType::bf16 ? launch_sum(kRung.name(), sum_vectors<__nv_bfloat16>, op, context)
                                  : launch_sum(kRung.name(), sum_vectors<__half>, op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
