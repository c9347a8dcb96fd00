// Attention, a warp a query, in one pass: online softmax.
//
// Idea        Weights are taken relative to the largest score so far. When a larger one comes, the sum and the output
//             so far shrink by what the old maximum is worth relative to the new one: the same result, in one pass.
// Change      One loop over the keys; two multiplications more a key.
// Prediction  Up to twice 01. Every key and value still serves one query.
#include "ladder/flash_attention/lanes.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void attend(Calls c) {
    const Head head(c, kWarps);
    const std::int64_t query = head.first + threadIdx.x / 32, keys = keys_of(c, query);
    if (query >= c.q_tokens) return;
    float q[kOfLane], out[kOfLane] = {}, top = minus_infinity(), sum = 0.0f;
    load_row(q, head.q + query * head.q_stride, c.head_dim);
    for (std::int64_t j = 0; j < keys; ++j) {
        const float x = score(q, head.k + j * head.kv_stride, c.head_dim), before = top;
        top = fmaxf(top, x);
        const float shrink = shrink_of(before, top, c.scale), weight = weight_of(x, top, c.scale);
        float value[kOfLane];
        load_row(value, head.v + j * head.kv_stride, c.head_dim);
        sum = sum * shrink + weight;
#pragma unroll
        for (int i = 0; i < kOfLane; ++i) out[i] = fmaf(weight, value[i], out[i] * shrink);
    }
    store_row(head.out + query * head.q_stride, out, sum, c.head_dim);
}

const RegisterRung<Attention> kRung{
    +[](const Attention& op, const DeviceInfo&) { return decline_attention(op, kMostHead); },
    +[](const Attention& op, Context& context) {
        launch_attention(kRung.name(), attend, kWarps, 32 * kWarps, op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
