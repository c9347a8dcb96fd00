// Rotary embedding, a pair a thread.
//
// Idea        Neighbouring elements are one point of a plane, which turns by position · base^(-2i/dim). A thread owns
//             a pair: it reads both before it writes either, so out may be x.
// Change      The first rung.
// Prediction  Bound by arithmetic: a power, a sine and a cosine for 16 bytes.
#include "ladder/rope/turn.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void rope(RopeParams p) {
    const std::int64_t pair = thread_in_grid();
    if (pair >= p.pairs) return;
    const float2 v = reinterpret_cast<const float2*>(p.x)[pair];
    reinterpret_cast<float2*>(p.out)[pair] = turned(p, pair, v);
}

const RegisterRung<Rope> kRung{
    +[](const Rope& op, const DeviceInfo&) { return decline_rope(op); },
    +[](const Rope& op, Context& context) { launch_rope(kRung.name(), rope, 1, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
