// Rows of a table, four elements a thread by one load.
//
// Idea        The same four elements, as one vector of 16 bytes.
// Change      One load where 02 has four.
// Prediction  The card's bandwidth, where rows are long.
#include "ladder/embedding/gather.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void gather(const int* ids, const float* table, float* out, std::int64_t vocab, std::int64_t dim) {
    const int id = ids[blockIdx.x];
    const bool found = has_row(id, vocab);
    const float* row = table + (found ? id : 0) * dim;  // 64 bits: a large table has more than 2^31 elements
    float* to = out + blockIdx.x * dim;
    for (std::int64_t i = 4 * threadIdx.x; i < dim; i += 4 * blockDim.x) {
        const float4 zeros = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        *reinterpret_cast<float4*>(to + i) = found ? *reinterpret_cast<const float4*>(row + i) : zeros;
    }
}

const RegisterRung<Embedding> kRung{
    +[](const Embedding& op, const DeviceInfo&) { return decline_embedding(op, DType::fp32, 4); },
    +[](const Embedding& op, Context& context) { launch_embedding(kRung.name(), gather, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
