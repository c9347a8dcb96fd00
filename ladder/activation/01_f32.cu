// An activation, an element a thread.
//
// Idea        Every element goes its own way through the same function: sigmoid, relu, elu, gelu, silu (swish),
//             hardswish or hardshrink. What it takes to be right at both ends of fp32 is in activate.h.
// Change      The first rung.
// Prediction  Bound by memory, for all seven: an exponential and a division are some ten instructions for 8 bytes that
//             move.
#include "ladder/activation/activate.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void apply(const float* x, float* out, std::int64_t n, Activation activation, float alpha) {
    const std::int64_t i = thread_in_grid();
    if (i < n) out[i] = activate(activation, alpha, x[i]);
}

const RegisterRung<Activate> kRung{
    +[](const Activate& op, const DeviceInfo&) { return decline_activation(op, DType::fp32); },
    +[](const Activate& op, Context& context) { launch_activation(kRung.name(), apply, 1, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
