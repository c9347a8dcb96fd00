// Rows of a table in fp16, eight elements a thread by eight loads.
//
// Idea        Unrolled by eight, as 02 by four.
// Change      Eight elements a step.
// Prediction  As 02: worse than its loads in flight promise.
#include "ladder/embedding/gather.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void gather(const int* ids, const __half* table, __half* out, std::int64_t vocab,
                       std::int64_t dim) {
    const int id = ids[blockIdx.x];
    const bool found = has_row(id, vocab);
    const __half* row = table + (found ? id : 0) * dim;  // 64 bits: a large table has more than 2^31 elements
    __half* to = out + blockIdx.x * dim;
    const __half zero = __float2half_rn(0.0f);
    for (std::int64_t i = 8 * threadIdx.x; i < dim; i += 8 * blockDim.x) {
#pragma unroll
        for (int k = 0; k < 8; ++k) to[i + k] = found ? row[i + k] : zero;
    }
}

const RegisterRung<Embedding> kRung{
    +[](const Embedding& op, const DeviceInfo&) { return decline_embedding(op, DType::fp16, 8); },
    +[](const Embedding& op, Context& context) { launch_embedding(kRung.name(), gather, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
