// Rows of a table in fp16, an element a thread and step.
//
// Idea        A gather computes nothing: the dtype only says how many bytes an element has.
// Change      01 with elements of 2 bytes.
// Prediction  More than half of 01's time: as many loads.
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
    for (std::int64_t i = threadIdx.x; i < dim; i += blockDim.x) to[i] = found ? row[i] : zero;
}

const RegisterRung<Embedding> kRung{
    +[](const Embedding& op, const DeviceInfo&) { return decline_embedding(op, DType::fp16, 1); },
    +[](const Embedding& op, Context& context) { launch_embedding(kRung.name(), gather, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
