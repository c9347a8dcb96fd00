// The sum of a row of int8 elements, in int32.
//
// Idea        Integers are summed exactly, in any order. A row of up to 2^24 elements of at most 128 cannot leave
//             int32: longer ones are declined.
// Change      02 with integers; the butterfly is the same.
// Prediction  As 09.
#include "ladder/reduce/rows.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void sum(const std::int8_t* x, int* out, std::int64_t dim) {
    const std::int8_t* row = x + blockIdx.x * dim;
    int part = 0;
    for (std::int64_t i = threadIdx.x; i < dim; i += kBlock) part += row[i];
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
