// An activation, four elements a thread.
//
// Idea        A float4 is one load and one store for four elements, and four evaluations that do not wait for each
//             other.
// Change      Four elements a thread, as one vector; the thread at the end does what is left one by one.
// Prediction  Nearer to the card's bandwidth than 01.
#include "ladder/activation/activate.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void apply(const float* x, float* out, std::int64_t n, Activation activation, float alpha) {
    const std::int64_t i = 4 * thread_in_grid();
    if (i + 4 <= n) {
        float4 v = *reinterpret_cast<const float4*>(x + i);
        v.x = activate(activation, alpha, v.x);
        v.y = activate(activation, alpha, v.y);
        v.z = activate(activation, alpha, v.z);
        v.w = activate(activation, alpha, v.w);
        *reinterpret_cast<float4*>(out + i) = v;
    } else {
        for (std::int64_t j = i; j < n; ++j) out[j] = activate(activation, alpha, x[j]);
    }
}

const RegisterRung<Activate> kRung{
    +[](const Activate& op, const DeviceInfo&) { return decline_activation(op, DType::fp32); },
    +[](const Activate& op, Context& context) { launch_activation(kRung.name(), apply, 4, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
