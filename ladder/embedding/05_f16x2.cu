// Rows of a table in fp16, two elements a load.
//
// Idea        A pair is one register.
// Change      Vectors of two.
// Prediction  About half of 01's time.
#include "ladder/embedding/gather.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void gather(const int* ids, const __half* table, __half* out, std::int64_t vocab,
                       std::int64_t dim) {
    const int id = ids[blockIdx.x];
    const bool found = has_row(id, vocab);
    const __half* row = table + (found ? id : 0) * dim;  // 64 bits: a large table has more than 2^31 elements
    __half* to = out + blockIdx.x * dim;
    const __half2 zeros = __float2half2_rn(0.0f);
    for (std::int64_t i = 2 * threadIdx.x; i < dim; i += 2 * blockDim.x)
        *reinterpret_cast<__half2*>(to + i) = found ? *reinterpret_cast<const __half2*>(row + i) : zeros;
}

const RegisterRung<Embedding> kRung{
    +[](const Embedding& op, const DeviceInfo&) { return decline_embedding(op, DType::fp16, 2); },
    +[](const Embedding& op, Context& context) { launch_embedding(kRung.name(), gather, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
