// Addition, an element a thread.
//
// Idea        Thread i adds element i. The 32 threads of a warp read 32 neighbouring floats, which are 128 bytes:
//             one request to memory for the warp, and nothing of what it fetches is wasted (coalescing).
// Change      The first rung.
// Prediction  Bound by memory: three floats move for one addition. Short of the card's bandwidth, because each
//             thread has only two loads of 4 bytes in flight while it waits.
#include "ladder/elementwise/add.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void add(const float* a, const float* b, float* out, std::int64_t n) {
    const std::int64_t i = thread_in_grid();
    if (i < n) out[i] = a[i] + b[i];  // the last block may be cut off
}

const RegisterRung<ResidualAdd> kRung{
    +[](const ResidualAdd& op, const DeviceInfo&) { return decline_add(op, DType::fp32); },
    +[](const ResidualAdd& op, Context& context) { launch_add(kRung.name(), add, 1, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
