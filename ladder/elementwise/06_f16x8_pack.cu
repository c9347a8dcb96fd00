// Addition in fp16, eight elements a thread by one load.
//
// Idea        Eight halves are 16 bytes: they travel as one vector, and are pairs again once they are in registers.
// Change      One load of 16 bytes where 05 has four of 4: neighbouring lanes read neighbouring vectors.
// Prediction  The top rung: what the library's own kernels do, and bound by memory alone.
#include "ladder/elementwise/add.h"

namespace weft::inline WEFT_TARGET {
namespace {

struct alignas(16) Pack {
    __half2 pair[4];
};

__global__ void add(const __half* a, const __half* b, __half* out, std::int64_t n) {
    const std::int64_t i = 8 * thread_in_grid();
    if (i + 8 <= n) {
        const Pack x = *reinterpret_cast<const Pack*>(a + i), y = *reinterpret_cast<const Pack*>(b + i);
        Pack sum;
#pragma unroll
        for (int k = 0; k < 4; ++k) sum.pair[k] = __hadd2(x.pair[k], y.pair[k]);
        *reinterpret_cast<Pack*>(out + i) = sum;
    } else {
        for (std::int64_t j = i; j < n; ++j) out[j] = __hadd(a[j], b[j]);
    }
}

const RegisterRung<ResidualAdd> kRung{
    +[](const ResidualAdd& op, const DeviceInfo&) { return decline_add(op, DType::fp16); },
    +[](const ResidualAdd& op, Context& context) { launch_add(kRung.name(), add, 8, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
