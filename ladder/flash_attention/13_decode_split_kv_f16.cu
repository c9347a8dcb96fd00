// Attention of few queries with many keys, the keys split between blocks: what decoding needs.
//
// Idea        A model that writes one token at a time has one query a head, and thousands of keys. A block a head leaves
//             most of the card idle. So the keys are dealt out to warps of many blocks; each leaves the state of its online
//             softmax in memory, and a second kernel merges the states of a query as if they had been tiles.
// Change      02, with the keys split; a second kernel.
// Prediction  Bound by reading keys and values once, where 02 with its one warp a query is bound by waiting. A tile for
//             tensor cores would be nearly empty: one query of its 16.
#include "ladder/flash_attention/lanes.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr std::int64_t kFewQueries = 16, kShare = 128,
                       kMostBlocks = 32;  // kShare: keys that are worth a warp

struct State {
    float top, sum, out[kMostHead];
};

__global__ void attend(Calls c, State* states) {
    const Head head(c, 1);
    const std::int64_t parts = std::int64_t{gridDim.y} * kWarps, keys = keys_of(c, head.first);
    const std::int64_t part = std::int64_t{blockIdx.y} * kWarps + threadIdx.x / 32;
    const std::int64_t each = (keys + parts - 1) / parts, end = min((part + 1) * each, keys);
    float q[kOfLane];
    load_row(q, head.q + head.first * head.q_stride, c.head_dim);
    LaneState state;
    for (std::int64_t j = part * each; j < end; ++j)
        state.take(q, head.k + j * head.kv_stride, head.v + j * head.kv_stride, c);
    State& to = states[blockIdx.x * parts + part];
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane == 0) to.top = state.top, to.sum = state.sum;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) to.out[lane + 32 * i] = state.out[i];
}

__global__ void merge(Calls c, const State* states, std::int64_t parts) {
    const Head head(c, 1);
    const int lane = static_cast<int>(threadIdx.x);
    LaneState all;
    for (const State* from = states + blockIdx.x * parts; parts > 0; --parts, ++from) {
        const float top = fmaxf(all.top, from->top);
        const float keep = shrink_of(all.top, top, c.scale), take = shrink_of(from->top, top, c.scale);
        all.top = top, all.sum = all.sum * keep + from->sum * take;
#pragma unroll
        for (int i = 0; i < kOfLane; ++i) all.out[i] = all.out[i] * keep + from->out[lane + 32 * i] * take;
    }
    store_row(head.out + head.first * head.q_stride, all.out, all.sum, c.head_dim);
}

void launch(const char* name, const Attention& op, Context& context) {
    const Calls calls = calls_of(op, 1);
    const auto blocks = static_cast<unsigned>(calls.tiles * op.q.dim(0) * op.q.dim(2));
    const std::int64_t wanted = std::max<std::int64_t>(divide_up(calls.kv_tokens, kShare * kWarps), 1);
    const std::int64_t across = std::min(wanted, kMostBlocks), parts = across * kWarps;
    auto* states =
        static_cast<State*>(context.scratch(blocks * static_cast<std::size_t>(parts) * sizeof(State)));
    kit::launch(name, attend, {.grid = dim3(blocks, static_cast<unsigned>(across)), .block = 32 * kWarps},
                context.stream(), calls, states);
    kit::launch(name, merge, {.grid = blocks, .block = 32}, context.stream(), calls, states, parts);
}

const RegisterRung<Attention> kRung{
    +[](const Attention& op, const DeviceInfo&) {
        return op.q.dim(1) <= kFewQueries ? decline_attention(op, kMostHead) : "takes few queries";
    },
    +[](const Attention& op, Context& context) { launch(kRung.name(), op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
