// The sum of a row of int8 elements, sixteen a load.
//
// Idea        Sixteen elements are one vector of 16 bytes.
// Change      Vectors of sixteen.
// Prediction  As 10, with cheaper conversions. (__dp4a, a product of four bytes by four, would add four at once.)
#include "ladder/reduce/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void sum(const std::int8_t* x, int* out, std::int64_t dim) {
    const std::int8_t* row = x + blockIdx.x * dim;
    int part = 0;
    for_row<16>(
        row, dim,
        [&](const std::int8_t* vector) {
            const auto pack = *reinterpret_cast<const Pack<std::int8_t, 16>*>(vector);
#pragma unroll
            for (const std::int8_t one : pack.at) part += one;
        },
        [&](std::int64_t i) { part += row[i]; });
    part = block_sum(part);
    if (threadIdx.x == 0) out[blockIdx.x] = part;
}

const RegisterRung<Reduce> kRung{
    +[](const Reduce& op, const DeviceInfo&) {
        if (op.x.dim(-1) > 1 << 24) return "takes rows whose sum fits int32";
        return decline_sum(op, DType::int8, DType::int32);
    },
    +[](const Reduce& op, Context& context) { launch_sum(kRung.name(), sum, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
