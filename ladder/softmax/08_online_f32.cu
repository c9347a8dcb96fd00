// Softmax with a running maximum: two passes.
//
// Idea        The sum needs the maximum, but it can be corrected when a larger one comes: a pair (maximum, sum) takes
//             in one more element, and two pairs merge into one, in any order. Shuffles merge pairs as they merge
//             sums.
// Change      Maximum and sum are found in one pass (arXiv:1805.02867).
// Prediction  Two reads of the row in place of three, for two exponentials an element more. It wins where the row does
//             not fit the cache; attention is built on it.
#include "ladder/softmax/online.cuh"
#include "ladder/softmax/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void softmax(const float* x, float* out, std::int64_t dim) {
    x += blockIdx.x * dim;
    out += blockIdx.x * dim;
    Running running = nothing_yet();
    for (std::int64_t i = threadIdx.x; i < dim; i += kBlock) running = Merge{}(running, {x[i], 1.0f});
    running = block_all(running, nothing_yet(), Merge{});
    const float shift = shift_of(running.max), inverse = inverse_of(running.sum);
    for (std::int64_t i = threadIdx.x; i < dim; i += kBlock) out[i] = expf(x[i] - shift) * inverse;
}

const RegisterRung<Softmax> kRung{
    +[](const Softmax& op, const DeviceInfo&) { return decline_softmax(op, DType::fp32); },
    +[](const Softmax& op, Context& context) { launch_softmax(kRung.name(), softmax, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
