// An activation in fp16, an element a thread.
//
// Idea        The element is stored in half precision and computed in fp32. Half arithmetic would be no faster, since
//             memory is the bound, and e^11.1 is infinite in it.
// Change      01 with elements of 2 bytes, and a conversion on either side.
// Prediction  Slower than half of 01's time: as many requests, each of half the bytes.
#include "ladder/activation/activate.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void apply(const __half* x, __half* out, std::int64_t n, Activation activation, float alpha) {
    const std::int64_t i = thread_in_grid();
    if (i < n) out[i] = activate(activation, alpha, x[i]);
}

const RegisterRung<Activate> kRung{
    +[](const Activate& op, const DeviceInfo&) { return decline_activation(op, DType::fp16); },
    +[](const Activate& op, Context& context) { launch_activation(kRung.name(), apply, 1, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
