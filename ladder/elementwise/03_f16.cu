// Addition in fp16, an element a thread.
//
// Idea        Half the bytes are half the time, where memory is the bound. The sum of two halves, rounded once, is
//             what fp32 would give: an addition alone loses nothing by being done in half precision.
// Change      01 with elements of 2 bytes.
// Prediction  Slower than half of 01's time: a warp's request is 64 bytes now, and as many requests are needed.
#include "ladder/elementwise/add.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void add(const __half* a, const __half* b, __half* out, std::int64_t n) {
    const std::int64_t i = thread_in_grid();
    if (i < n) out[i] = __hadd(a[i], b[i]);
}

const RegisterRung<ResidualAdd> kRung{
    +[](const ResidualAdd& op, const DeviceInfo&) { return decline_add(op, DType::fp16); },
    +[](const ResidualAdd& op, Context& context) { launch_add(kRung.name(), add, 1, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
