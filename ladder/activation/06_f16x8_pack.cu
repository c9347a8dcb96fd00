// An activation in fp16, eight elements a thread by one load.
//
// Idea        Eight halves are 16 bytes: one vector in memory, four pairs in registers.
// Change      One load of 16 bytes where 05 has four of 4.
// Prediction  The top rung, bound by memory alone; beyond it there are only fused neighbours (the library's activation
//             adds a bias on the way).
#include "ladder/activation/activate.h"

namespace weft::inline WEFT_TARGET {
namespace {

struct alignas(16) Pack {
    __half2 pair[4];
};

__global__ void apply(const __half* x, __half* out, std::int64_t n, Activation activation, float alpha) {
    const std::int64_t i = 8 * thread_in_grid();
    if (i + 8 <= n) {
        Pack pack = *reinterpret_cast<const Pack*>(x + i);
#pragma unroll
        for (__half2& pair : pack.pair) pair = activate(activation, alpha, pair);
        *reinterpret_cast<Pack*>(out + i) = pack;
    } else {
        for (std::int64_t j = i; j < n; ++j) out[j] = activate(activation, alpha, x[j]);
    }
}

const RegisterRung<Activate> kRung{
    +[](const Activate& op, const DeviceInfo&) { return decline_activation(op, DType::fp16); },
    +[](const Activate& op, Context& context) { launch_activation(kRung.name(), apply, 8, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
