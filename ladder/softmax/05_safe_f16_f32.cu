// Softmax of halves, in fp32.
//
// Idea        Logits and weights are halves; maximum, exponentials and sum are fp32. A sum of weights in half
//             precision would stop growing at 2048 times its smallest term.
// Change      03 with elements of 2 bytes.
// Prediction  As many loads as 03, for half the bytes.
#include "ladder/softmax/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void softmax(const __half* x, __half* out, std::int64_t dim) {
    x += blockIdx.x * dim;
    out += blockIdx.x * dim;
    float max = -INFINITY;
    for (std::int64_t i = threadIdx.x; i < dim; i += kBlock) max = Larger{}(max, __half2float(x[i]));
    const float shift = shift_of(block_max(max));
    float sum = 0.0f;
    for (std::int64_t i = threadIdx.x; i < dim; i += kBlock) sum += expf(__half2float(x[i]) - shift);
    const float inverse = inverse_of(block_sum(sum));
    for (std::int64_t i = threadIdx.x; i < dim; i += kBlock)
        out[i] = __float2half_rn(expf(__half2float(x[i]) - shift) * inverse);
}

const RegisterRung<Softmax> kRung{
    +[](const Softmax& op, const DeviceInfo&) { return decline_softmax(op, DType::fp16); },
    +[](const Softmax& op, Context& context) { launch_softmax(kRung.name(), softmax, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
