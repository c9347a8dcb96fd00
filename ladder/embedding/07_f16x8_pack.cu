// Rows of a table in fp16, eight elements a load.
//
// Idea        One vector of 16 bytes, which never becomes halves at all.
// Change      One load where 06 has eight.
// Prediction  The top rung: the card's bandwidth.
#include "ladder/embedding/gather.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void gather(const int* ids, const __half* table, __half* out, std::int64_t vocab,
                       std::int64_t dim) {
    const int id = ids[blockIdx.x];
    const bool found = has_row(id, vocab);
    const __half* row = table + (found ? id : 0) * dim;  // 64 bits: a large table has more than 2^31 elements
    __half* to = out + blockIdx.x * dim;
    for (std::int64_t i = 8 * threadIdx.x; i < dim; i += 8 * blockDim.x) {
        const uint4 zeros = make_uint4(0, 0, 0, 0);
        *reinterpret_cast<uint4*>(to + i) = found ? *reinterpret_cast<const uint4*>(row + i) : zeros;
    }
}

const RegisterRung<Embedding> kRung{
    +[](const Embedding& op, const DeviceInfo&) { return decline_embedding(op, DType::fp16, 8); },
    +[](const Embedding& op, Context& context) { launch_embedding(kRung.name(), gather, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
