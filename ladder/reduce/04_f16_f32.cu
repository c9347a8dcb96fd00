// The sum of a row of 16-bit elements, in fp32.
//
// Idea        What is stored in 16 bits is widened, exactly, and summed in 32: the accumulator decides what a sum is
//             worth, not the elements. The same kernel for fp16 and bf16.
// Change      02 with elements of 2 bytes (widened.cuh).
// Prediction  A row of fp16 in a little more than half of 02's time: as many loads, each of half the bytes.
#include "ladder/reduce/widened.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Reduce> kRung{
    +[](const Reduce& op, const DeviceInfo&) {
        return decline_sum(op, op.x.dtype == DType::bf16 ? DType::bf16 : DType::fp16);
    },
    +[](const Reduce& op, Context& context) {
        op.x.dtype == DType::bf16 ? launch_sum(kRung.name(), sum_elements<__nv_bfloat16>, op, context)
                                  : launch_sum(kRung.name(), sum_elements<__half>, op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
