// qk_norm_rope's executable specification.
#include "kit/head_reference.h"
#include "kit/stepped_heads.h"
#include "ops/qk_norm_rope/qk_norm_rope.h"
#include "weft/op.h"

namespace weft {
namespace {

using kit::HeadValues;
using kit::token_begin;

kit::Turn turn_of(const QkNormRope& op, std::int64_t position, std::int64_t token, std::int64_t head,
                  std::int64_t pair) {
    if (op.head_cos) {
        const auto at = [&](const Tensor& t) {
            return load_element(t.dtype, t.data,
                                token_begin(t, 3, token) + head * t.stride[t.rank - 2] + pair);
        };
        return {at(op.head_cos), at(op.head_sin)};
    }
    if (!op.frequencies) return kit::rotary_turn(op, position, pair);
    const auto frequency = static_cast<float>(load_element(DType::fp32, op.frequencies.data, pair));
    const float angle = static_cast<float>(position) * frequency;
    return {std::cos(static_cast<double>(angle)), std::sin(static_cast<double>(angle))};
}

// Q or K: the norm, then the rotation.
HeadValues turned(const QkNormRope& op, const Tensor& from, const Tensor& weight, std::int64_t token) {
    HeadValues h(from, token);
    const bool row = op.norm == QkNormRope::Norm::row;
    kit::SteppedHeads steps(op, h);
    if (op.norm != QkNormRope::Norm::none && !h.value.empty())
        steps.normalise(row ? h.heads * h.dim : h.dim, weight);
    const std::int64_t in_sequence = token % op.sequence(), half = op.rotated() / 2;
    steps.put_back();
    if (in_sequence < op.prefix) return h;
    std::int64_t position[3] = {op.start + in_sequence - op.prefix, 0, 0};
    const Tensor* given[3] = {&op.positions, &op.positions2, &op.positions3};
    for (int part = 0; part < 3; ++part) {
        const Tensor& t = *given[part];
        if (t) position[part] = load_integer(t.dtype, t.data, token_begin(t, 1, token));
    }
    const bool halves = op.pairs == QkNormRope::Pairs::half;
    for (std::int64_t pair = 0; pair < half; ++pair) {
        const std::int64_t first = halves ? pair : 2 * pair;
        kit::Turn by{};
        for (std::int64_t head = 0; head < h.heads; ++head) {
            if (head == 0 || op.head_cos) by = turn_of(op, position[op.part(pair)], token, head, pair);
            steps.turn(head, first, first + (halves ? half : 1), by);
        }
    }
    steps.put_back();
    return h;
}

void reference(const QkNormRope& op, Oracle& oracle) {
    for (std::int64_t token = 0; token < op.tokens(); ++token) {
        const auto put = [&](const HeadValues& h, const Tensor& out, const Tensor& cache,
                             const Tensor& scale) {
            if (out) h.store(out, token_begin(out, 3, token), out.stride[out.rank - 2], {}, oracle);
            if (!cache) return;
            const std::int64_t size = cache.shape[1], slot = load_integer(op.slots.dtype, op.slots.data,
                                                                          token_begin(op.slots, 1, token));
            if (slot < 0 || slot >= cache.shape[0] * size) return;
            h.store(cache, slot / size * cache.stride[0] + slot % size * cache.stride[1], cache.stride[2],
                    scale, oracle);
        };
        put(turned(op, op.q, op.q_weight, token), op.q_out, {}, {});
        if (op.k) put(turned(op, op.k, op.k_weight, token), op.k_out, op.k_cache, op.k_scale);
        if (op.v) put(HeadValues(op.v, token), op.v_out, op.v_cache, op.v_scale);
    }
}

const RegisterReference<QkNormRope> kReference{reference};

}  // namespace
}  // namespace weft
