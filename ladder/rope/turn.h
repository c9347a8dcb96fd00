// What the rungs of this topic share: which calls they take, the angle, and the launch.
#pragma once

#include "ladder/rung.h"
#include "ops/rope/rope.h"

namespace weft::inline WEFT_TARGET {

inline const char* decline_rope(const Rope& op) {
    if (!is_dense(op.x, DType::fp32) || !is_dense(op.out, DType::fp32)) return "takes dense fp32";
    if (!starts_aligned(op.x, 16) || !starts_aligned(op.out, 16))
        return "takes tensors that start at a multiple of 16 bytes";
    if (op.x.rank != 3) return "takes one sequence";
    if (op.positions || op.cos) return "has no positions and no tables";
    if (op.pairs != Rope::Pairs::interleaved) return "turns neighbours";
    return op.rotated() == op.head_dim() ? nullptr : "turns whole heads";
}

struct RopeParams {
    const float* x;
    float* out;
    std::int64_t pairs;        // of the whole tensor
    std::int64_t heads, half;  // half: pairs of a head
    std::int64_t start;
    float base;
};

// Turns pair `pair` of the tensor by its angle. The quotient of the exponent is one of floating-point numbers: as one of
// integers it is 0 for every pair, and all of them turn alike. Double precision is for the frequency's last bit, which a
// position of a hundred thousand multiplies.
__device__ __forceinline__ float2 turned(const RopeParams& p, std::int64_t pair, float2 v) {
    const std::int64_t i = pair % p.half, token = pair / p.half / p.heads;
    const auto frequency = static_cast<float>(
        pow(static_cast<double>(p.base), -static_cast<double>(i) / static_cast<double>(p.half)));
    const float angle = static_cast<float>(p.start + token) * frequency;
    const float c = cosf(angle), s = sinf(angle);
    return make_float2(v.x * c - v.y * s, v.y * c + v.x * s);
}

// A thread for `each` pairs.
inline void launch_rope(const char* name, void (*kernel)(RopeParams), int each, const Rope& op,
                        Context& context) {
    const RopeParams p{op.x.as<const float>(), op.out.as<float>(), op.x.numel() / 2, op.x.dim(1),
                       op.head_dim() / 2,      op.start,           op.base};
    kit::launch(name, kernel, {.grid = blocks_for(divide_up(p.pairs, each), 256), .block = 256},
                context.stream(), p);
}

}  // namespace weft::inline WEFT_TARGET
