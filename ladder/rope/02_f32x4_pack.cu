// Rotary embedding, two pairs a thread.
//
// Idea        Four elements are one vector of 16 bytes and two pairs, which may belong to two heads: each is turned by
//             itself.
// Change      Vectors of four; an odd last pair is alone.
// Prediction  Little faster than 01: the angles cost as much as before. The library works them out once a token for
//             all its heads.
#include "ladder/rope/turn.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void rope(RopeParams p) {
    const std::int64_t pair = 2 * thread_in_grid();
    if (pair + 2 <= p.pairs) {
        const float4 v = *reinterpret_cast<const float4*>(p.x + 2 * pair);
        const float2 a = turned(p, pair, make_float2(v.x, v.y)),
                     b = turned(p, pair + 1, make_float2(v.z, v.w));
        *reinterpret_cast<float4*>(p.out + 2 * pair) = make_float4(a.x, a.y, b.x, b.y);
    } else if (pair < p.pairs) {
        const float2 v = reinterpret_cast<const float2*>(p.x)[pair];
        reinterpret_cast<float2*>(p.out)[pair] = turned(p, pair, v);
    }
}

const RegisterRung<Rope> kRung{
    +[](const Rope& op, const DeviceInfo&) { return decline_rope(op); },
    +[](const Rope& op, Context& context) { launch_rope(kRung.name(), rope, 2, op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
