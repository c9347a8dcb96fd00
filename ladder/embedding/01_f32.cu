// Rows of a table, an element a thread and step.
//
// Idea        Rows are far apart, their elements are neighbours: a block a token, its threads along the row, so that
//             every read of the table is coalesced though the rows come in any order.
// Change      The first rung.
// Prediction  Bound by memory; the latency of reading the number first, then the row, is hidden by other blocks.
#include "ladder/embedding/gather.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void gather(const int* ids, const float* table, float* out, std::int64_t vocab, std::int64_t dim) {
    const int id = ids[blockIdx.x];
    const bool found = has_row(id, vocab);
    const float* row = table + (found ? id : 0) * dim;  // 64 bits: a large table has more than 2^31 elements
    float* to = out + blockIdx.x * dim;
    for (std::int64_t i = threadIdx.x; i < dim; i += blockDim.x) to[i] = found ? row[i] : 0.0f;
}

const RegisterRung<Embedding> kRung{
    +[](const Embedding& op, const DeviceInfo&) { return decline_embedding(op, DType::fp32, 1); },
    +[](const Embedding& op, Context& context) { launch_embedding(kRung.name(), gather, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
