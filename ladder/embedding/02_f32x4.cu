// Rows of a table, four elements a thread by four loads.
//
// Idea        Four loads of one element each, unrolled: more in flight, but the lanes of a warp read 16 bytes apart.
// Change      Four elements a step. Rows that are not whole vectors are 01's.
// Prediction  Not better than 01: each instruction touches four times as many lines.
#include "ladder/embedding/gather.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void gather(const int* ids, const float* table, float* out, std::int64_t vocab, std::int64_t dim) {
    const int id = ids[blockIdx.x];
    const bool found = has_row(id, vocab);
    const float* row = table + (found ? id : 0) * dim;  // 64 bits: a large table has more than 2^31 elements
    float* to = out + blockIdx.x * dim;
    for (std::int64_t i = 4 * threadIdx.x; i < dim; i += 4 * blockDim.x) {
#pragma unroll
        for (int k = 0; k < 4; ++k) to[i + k] = found ? row[i + k] : 0.0f;
    }
}

const RegisterRung<Embedding> kRung{
    +[](const Embedding& op, const DeviceInfo&) { return decline_embedding(op, DType::fp32, 4); },
    +[](const Embedding& op, Context& context) { launch_embedding(kRung.name(), gather, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
