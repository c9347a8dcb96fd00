// An activation in fp16, eight elements a thread by four loads.
//
// Idea        Four loads are asked for before the first exponential begins: their waits overlap.
// Change      Eight elements a thread, in four pairs.
// Prediction  Lanes of a warp read 4 bytes that lie 16 apart: one instruction touches four times as many lines as it
//             needs, so 06 should beat this one.
#include "ladder/activation/activate.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void apply(const __half* x, __half* out, std::int64_t n, Activation activation, float alpha) {
    const std::int64_t i = 8 * thread_in_grid();
    if (i + 8 <= n) {
        __half2 pair[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) pair[k] = reinterpret_cast<const __half2*>(x + i)[k];
#pragma unroll
        for (int k = 0; k < 4; ++k)
            reinterpret_cast<__half2*>(out + i)[k] = activate(activation, alpha, pair[k]);
    } else {
        for (std::int64_t j = i; j < n; ++j) out[j] = activate(activation, alpha, x[j]);
    }
}

const RegisterRung<Activate> kRung{
    +[](const Activate& op, const DeviceInfo&) { return decline_activation(op, DType::fp16); },
    +[](const Activate& op, Context& context) { launch_activation(kRung.name(), apply, 8, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
