// Softmax with a running maximum, four elements a load.
//
// Idea        A vector is reduced by itself first, its maximum and its four exponentials: one merge for four elements.
// Change      Vectors of four, and a quarter of the merges.
// Prediction  The top rung: two reads, and five exponentials for four elements in place of eight. The library keeps
//             the row in registers and reads it once.
#include "ladder/softmax/online.cuh"
#include "ladder/softmax/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void softmax(const float* x, float* out, std::int64_t dim) {
    x += blockIdx.x * dim;
    out += blockIdx.x * dim;
    Running running = nothing_yet();
    for_row<4>(
        x, dim,
        [&](const float* vector) {
            const float4 v = *reinterpret_cast<const float4*>(vector);
            const float max = Larger{}(Larger{}(v.x, v.y), Larger{}(v.z, v.w)), shift = shift_of(max);
            const float sum =
                (expf(v.x - shift) + expf(v.y - shift)) + (expf(v.z - shift) + expf(v.w - shift));
            running = Merge{}(running, {max, sum});
        },
        [&](std::int64_t i) { running = Merge{}(running, {x[i], 1.0f}); });
    running = block_all(running, nothing_yet(), Merge{});
    const float shift = shift_of(running.max), inverse = inverse_of(running.sum);
    for_row<4>(
        x, dim,
        [&](const float* vector) {
            const float4 v = *reinterpret_cast<const float4*>(vector);
            *reinterpret_cast<float4*>(out + (vector - x)) =
                make_float4(expf(v.x - shift) * inverse, expf(v.y - shift) * inverse,
                            expf(v.z - shift) * inverse, expf(v.w - shift) * inverse);
        },
        [&](std::int64_t i) { out[i] = expf(x[i] - shift) * inverse; });
}

const RegisterRung<Softmax> kRung{
    +[](const Softmax& op, const DeviceInfo&) { return decline_softmax(op, DType::fp32); },
    +[](const Softmax& op, Context& context) { launch_softmax(kRung.name(), softmax, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
