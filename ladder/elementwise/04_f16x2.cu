// Addition in fp16, two elements a thread.
//
// Idea        A half2 is two halves in one register, and __hadd2 adds both at once: one load, one addition and one
//             store for two elements.
// Change      Two elements a thread; an odd last element is added alone.
// Prediction  About half of 01's time: the warp's request has 128 bytes again.
#include "ladder/elementwise/add.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void add(const __half* a, const __half* b, __half* out, std::int64_t n) {
    const std::int64_t i = 2 * thread_in_grid();
    if (i + 2 <= n) {
        const __half2 x = *reinterpret_cast<const __half2*>(a + i),
                      y = *reinterpret_cast<const __half2*>(b + i);
        *reinterpret_cast<__half2*>(out + i) = __hadd2(x, y);
    } else if (i < n) {
        out[i] = __hadd(a[i], b[i]);
    }
}

const RegisterRung<ResidualAdd> kRung{
    +[](const ResidualAdd& op, const DeviceInfo&) { return decline_add(op, DType::fp16); },
    +[](const ResidualAdd& op, Context& context) { launch_add(kRung.name(), add, 2, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
