// Attention, a warp a query, in one pass: online softmax.
//
// Idea        Weights are taken relative to the largest score so far. When a larger one comes, the sum and the output
//             so far shrink by what the old maximum is worth relative to the new one: the same result, in one pass
//             (LaneState in lanes.cuh).
// Change      One loop over the keys; two multiplications more a key.
// Prediction  Up to twice 01. Every key and value still serves one query.
#include "ladder/flash_attention/lanes.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void attend(Calls c) {
    const Head head(c, kWarps);
    const std::int64_t query = head.first + threadIdx.x / 32, keys = keys_of(c, query);
    if (query >= c.q_tokens) return;
    float q[kOfLane];
    load_row(q, head.q + query * head.q_stride, c.head_dim);
    LaneState state;
    for (std::int64_t j = 0; j < keys; ++j)
        state.take(q, head.k + j * head.kv_stride, head.v + j * head.kv_stride, c);
    store_row(head.out + query * head.q_stride, state.out, state.sum, c.head_dim);
}

const RegisterRung<Attention> kRung{
    +[](const Attention& op, const DeviceInfo&) { return decline_attention(op, kMostHead); },
    +[](const Attention& op, Context& context) {
        launch_attention(kRung.name(), attend, kWarps, 32 * kWarps, op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
