// Two partial results of attention as one, an element a thread.
//
// Idea        Each state is an average over its keys, with the logarithm of its total weight: the merged result is the
//             average of the two by weight. The larger logarithm is subtracted first, as in softmax.
// Change      The first rung.
// Prediction  Bound by memory: three elements move. The two exponentials are the same for a whole head, and each
//             thread works them out again.
#include "ladder/merge_states/states.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void merge(MergeParams<float> p) {
    const std::int64_t i = thread_in_grid();
    if (i < p.elements) p.out[i] = mixed(shares_of(p, i, i % p.head_dim == 0), p.a[i], p.b[i]);
}

const RegisterRung<MergeAttentionStates> kRung{
    +[](const MergeAttentionStates& op, const DeviceInfo&) { return decline_merge(op, DType::fp32, 1); },
    +[](const MergeAttentionStates& op, Context& context) {
        launch_merge(kRung.name(), merge, 1, op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
