// Attention, a warp a query, in two passes over the keys.
//
// Idea        A query's scores are its products with all keys; their softmax weighs the values. The maximum must be
//             known before the first weight, so a warp computes all scores once for it, and once more for the weights:
//             nothing is stored between.
// Change      The first rung.
// Prediction  Every key is read twice for each query, from L2, and each score ends in five shuffles: a few percent of
//             the card's arithmetic.
#include "ladder/flash_attention/lanes.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void attend(Calls c) {
    const Head head(c, kWarps);
    const std::int64_t query = head.first + threadIdx.x / 32, keys = keys_of(c, query);
    if (query >= c.q_tokens) return;
    float q[kOfLane], out[kOfLane] = {}, top = minus_infinity(), sum = 0.0f;
    load_row(q, head.q + query * head.q_stride, c.head_dim);
    for (std::int64_t j = 0; j < keys; ++j)
        top = fmaxf(top, score(q, head.k + j * head.kv_stride, c.head_dim));
    for (std::int64_t j = 0; j < keys; ++j) {
        const float weight = weight_of(score(q, head.k + j * head.kv_stride, c.head_dim), top, c.scale);
        float value[kOfLane];
        load_row(value, head.v + j * head.kv_stride, c.head_dim);
        sum += weight;
#pragma unroll
        for (int i = 0; i < kOfLane; ++i) out[i] = fmaf(weight, value[i], out[i]);
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
