// Softmax with the largest logit subtracted.
//
// Idea        Numerator and denominator times e^-max: the same quotient, and no exponent above 0. A row of -infinity
//             alone would give NaN by the difference of infinities; it gives zeros (rows.h).
// Change      A pass before the others, which finds the maximum.
// Prediction  Three reads of the row, of which the second and third come from L1 or L2 while the row fits there.
#include "ladder/softmax/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void softmax(const float* x, float* out, std::int64_t dim) {
    x += blockIdx.x * dim;
    out += blockIdx.x * dim;
    float max = -INFINITY;
    for (std::int64_t i = threadIdx.x; i < dim; i += kBlock) max = Larger{}(max, x[i]);
    const float shift = shift_of(block_max(max));
    float sum = 0.0f;
    for (std::int64_t i = threadIdx.x; i < dim; i += kBlock) sum += expf(x[i] - shift);
    const float inverse = inverse_of(block_sum(sum));
    for (std::int64_t i = threadIdx.x; i < dim; i += kBlock) out[i] = expf(x[i] - shift) * inverse;
}

const RegisterRung<Softmax> kRung{
    +[](const Softmax& op, const DeviceInfo&) { return decline_softmax(op, DType::fp32); },
    +[](const Softmax& op, Context& context) { launch_softmax(kRung.name(), softmax, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
