// Addition, four elements a thread.
//
// Idea        A float4 is read by one instruction of 16 bytes, the widest there is. A quarter of the instructions
//             move the same bytes, and each thread has four times as many in flight.
// Change      Four elements a thread, as one vector. What is left over at the end, one to three elements, is added
//             one by one by the thread whose vector would reach beyond the end.
// Prediction  Nearer to the card's bandwidth than 01, most of all where few warps fit on a multiprocessor.
#include "ladder/elementwise/add.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void add(const float* a, const float* b, float* out, std::int64_t n) {
    const std::int64_t i = 4 * thread_in_grid();
    if (i + 4 <= n) {
        const float4 x = *reinterpret_cast<const float4*>(a + i), y = *reinterpret_cast<const float4*>(b + i);
        *reinterpret_cast<float4*>(out + i) = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
    } else {
        for (std::int64_t j = i; j < n; ++j) out[j] = a[j] + b[j];
    }
}

const RegisterRung<ResidualAdd> kRung{
    +[](const ResidualAdd& op, const DeviceInfo&) { return decline_add(op, DType::fp32); },
    +[](const ResidualAdd& op, Context& context) { launch_add(kRung.name(), add, 4, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
