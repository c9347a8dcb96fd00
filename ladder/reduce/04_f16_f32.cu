// The sum of a row of 16-bit elements, in fp32.
//
// Idea        What is stored in 16 bits is widened, exactly, and summed in 32: the accumulator decides what a sum is
//             worth, not the elements. The same kernel for fp16 and bf16.
// Change      02 with elements of 2 bytes.
// Prediction  A row of fp16 in a little more than half of 02's time: as many loads, each of half the bytes.
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
        return decline_sum(op, op.x.dtype == DType::bf16 ? DType::bf16 : DType::fp16);
    },
    +[](const Reduce& op, Context& context) {
        op.x.dtype == DType::bf16 ? launch_sum(kRung.name(), sum<__nv_bfloat16>, op, context)
                                  : launch_sum(kRung.name(), sum<__half>, op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
