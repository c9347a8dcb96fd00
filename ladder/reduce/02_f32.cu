// The sum of a row, by one block, in the same order every time.
//
// Idea        A thread sums every 256th element into a register; then the block sums its 256 registers, by shuffles
//             within a warp and through shared memory between warps (block_sum.cuh).
// Change      One block loops over the whole row instead of many that meet in an atomic: the order of additions is
//             fixed, and so are the bits.
// Prediction  As fast as 01 where there are many rows. A single long row keeps one multiprocessor busy and the rest
//             idle: the library splits it over a cluster of blocks, which add in a fixed order too.
#include "ladder/reduce/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void sum(const float* x, float* out, std::int64_t dim) {
    const float* row = x + blockIdx.x * dim;
    float part = 0.0f;
    for (std::int64_t i = threadIdx.x; i < dim; i += kBlock) part += row[i];
    part = block_sum(part);
    if (threadIdx.x == 0) out[blockIdx.x] = part;
}

const RegisterRung<Reduce> kRung{
    +[](const Reduce& op, const DeviceInfo&) { return decline_sum(op, DType::fp32, DType::fp32); },
    +[](const Reduce& op, Context& context) { launch_sum<float, float>(kRung.name(), sum, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
