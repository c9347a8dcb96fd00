// The sum of a row, four elements a load.
//
// Idea        A load of 16 bytes needs an address that is a multiple of 16. Rows of odd length start anywhere: the
//             elements before the first whole vector and behind the last are taken one by one (for_row in rows.h).
// Change      Vectors of four, with four additions for each wait.
// Prediction  Up to 02's time less the instructions saved; what counts is that each thread has 16 bytes in flight.
#include "ladder/reduce/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void sum(const float* x, float* out, std::int64_t dim) {
    const float* row = x + blockIdx.x * dim;
    float part = 0.0f;
    for_row<4>(
        row, dim,
        [&](const float* vector) {
            const float4 v = *reinterpret_cast<const float4*>(vector);
            part += (v.x + v.y) + (v.z + v.w);
        },
        [&](std::int64_t i) { part += row[i]; });
    part = block_sum(part);
    if (threadIdx.x == 0) out[blockIdx.x] = part;
}

const RegisterRung<Reduce> kRung{
    +[](const Reduce& op, const DeviceInfo&) { return decline_sum(op, DType::fp32, DType::fp32); },
    +[](const Reduce& op, Context& context) { launch_sum<float, float>(kRung.name(), sum, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
