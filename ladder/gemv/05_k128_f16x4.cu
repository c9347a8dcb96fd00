// A matrix of halves times a vector, four elements a load.
//
// Idea        Four halves are 8 bytes, two pairs.
// Change      Vectors of four.
// Prediction  Half as many bytes as 02 in as many loads: vectors of eight would be better where rows allow it.
#include "ladder/gemv/vector.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void gemv(const __half* x, const __half* matrix, __half* out, std::int64_t rows, std::int64_t k) {
    const std::int64_t row = thread_in_grid() / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (row >= rows) return;
    struct alignas(8) Four {
        __half2 pair[2];
    };
    float sum = 0.0f;
    for (std::int64_t i = 4 * lane; i < k; i += 128) {
        const Four a = *reinterpret_cast<const Four*>(matrix + row * k + i),
                   b = *reinterpret_cast<const Four*>(x + i);
#pragma unroll
        for (int p = 0; p < 2; ++p) {
            const float2 u = __half22float2(a.pair[p]), v = __half22float2(b.pair[p]);
            sum = fmaf(u.x, v.x, fmaf(u.y, v.y, sum));
        }
    }
    sum = warp_all(sum, Plus{});
    if (lane == 0) out[row] = __float2half_rn(sum);
}

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_gemv(op, DType::fp16, 4); },
    +[](const Gemm& op, Context& context) { launch_gemv(kRung.name(), gemv, 32, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
