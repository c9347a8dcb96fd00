// An activation in fp16, two elements a thread.
//
// Idea        A half2 is two halves in one register: one load and one store for two elements.
// Change      Two elements a thread; an odd last one is alone.
// Prediction  About half of 01's time.
#include "ladder/activation/activate.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void apply(const __half* x, __half* out, std::int64_t n, Activation activation, float alpha) {
    const std::int64_t i = 2 * thread_in_grid();
    if (i + 2 <= n) {
        const __half2 pair = *reinterpret_cast<const __half2*>(x + i);
        *reinterpret_cast<__half2*>(out + i) = activate(activation, alpha, pair);
    } else if (i < n) {
        out[i] = activate(activation, alpha, x[i]);
    }
}

const RegisterRung<Activate> kRung{
    +[](const Activate& op, const DeviceInfo&) { return decline_activation(op, DType::fp16); },
    +[](const Activate& op, Context& context) { launch_activation(kRung.name(), apply, 2, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
