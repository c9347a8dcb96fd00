// qk_norm_rope's executable specification.
#include <cmath>
#include <vector>

#include "kit/rotary.h"
#include "ops/qk_norm_rope/qk_norm_rope.h"
#include "weft/op.h"

namespace weft {
namespace {

// Where a token begins: the axes before the tokens fold, so that one stride serves them.
std::int64_t token_at(const Tensor& t, int trailing, std::int64_t token) {
    std::int64_t at = 0;
    for (int axis = t.rank - trailing; axis >= 0; --axis) {
        at += token % t.shape[axis] * t.stride[axis];
        token /= t.shape[axis];
    }
    return at;
}

// A token's heads: values that correct fp32 arithmetic meets within ± error.
struct HeadValues {
    std::int64_t heads, dim;
    std::vector<double> value, error;
};

HeadValues load(const Tensor& t, std::int64_t token) {
    HeadValues h{t.dim(-2), t.dim(-1), {}, {}};
    const std::int64_t begin = token_at(t, 3, token);
    for (std::int64_t head = 0; head < h.heads; ++head)
        for (std::int64_t i = 0; i < h.dim; ++i)
            h.value.push_back(load_element(t.dtype, t.data, begin + head * t.stride[t.rank - 2] + i));
    h.error.assign(h.value.size(), 0.0);
    return h;
}

void normalise(const QkNormRope& op, const Tensor& weight, HeadValues& h) {
    if (op.norm == QkNormRope::Norm::none || h.value.empty()) return;
    const std::int64_t all = h.heads * h.dim, count = op.norm == QkNormRope::Norm::row ? all : h.dim;
    const auto bound = 32 + static_cast<double>(count) / 1024;
    for (std::int64_t first = 0; first < all; first += count) {
        double squares = 0;
        for (std::int64_t i = first; i < first + count; ++i) {
            const double x = h.value[static_cast<std::size_t>(i)];
            squares += x * x;
        }
        const double scale =
            1 / std::sqrt(squares / static_cast<double>(count) + static_cast<double>(op.eps));
        for (std::int64_t i = first; i < first + count; ++i) {
            double factor = 1;
            if (weight)
                factor = load_element(weight.dtype, weight.data, i % weight.dim(0)) +
                         static_cast<double>(op.weight_offset);
            double& y = h.value[static_cast<std::size_t>(i)];
            y *= scale * factor;
            const double error = kEps32 * bound * std::fabs(y);
            h.error[static_cast<std::size_t>(i)] = std::isfinite(error) ? error : 0;
        }
    }
}

kit::Turn turn_of(const QkNormRope& op, const std::int64_t (&position)[3], std::int64_t token,
                  std::int64_t head, std::int64_t pair) {
    if (op.head_cos) {
        const auto at = [&](const Tensor& t) {
            return load_element(t.dtype, t.data, token_at(t, 3, token) + head * t.stride[t.rank - 2] + pair);
        };
        return {at(op.head_cos), at(op.head_sin)};
    }
    const std::int64_t at = position[op.part(pair)];
    if (!op.frequencies) return kit::rotary_turn(op, at, pair);
    const auto frequency = static_cast<float>(load_element(DType::fp32, op.frequencies.data, pair));
    const float angle = static_cast<float>(at) * frequency;
    return {std::cos(static_cast<double>(angle)), std::sin(static_cast<double>(angle))};
}

void rotate(const QkNormRope& op, std::int64_t token, HeadValues& h) {
    const std::int64_t in_sequence = token % op.sequence(), half = op.rotated() / 2;
    if (in_sequence < op.prefix) return;
    std::int64_t position[3] = {op.start + in_sequence - op.prefix, 0, 0};
    int part = 0;
    for (const Tensor* given : {&op.positions, &op.positions2, &op.positions3}) {
        if (*given) position[part] = load_integer(given->dtype, given->data, token_at(*given, 1, token));
        ++part;
    }
    for (std::int64_t pair = 0; pair < half; ++pair) {
        const bool halves = op.pairs == QkNormRope::Pairs::half;
        kit::Turn turn{};
        for (std::int64_t head = 0; head < h.heads; ++head) {
            if (head == 0 || op.head_cos) turn = turn_of(op, position, token, head, pair);
            const auto first = static_cast<std::size_t>(head * h.dim + (halves ? pair : 2 * pair));
            const std::size_t second = first + static_cast<std::size_t>(halves ? half : 1);
            const double a = h.value[first], b = h.value[second], off_a = h.error[first],
                         off_b = h.error[second];
            const auto set = [&](std::size_t i, double x, double y, double sum, double off) {
                const double error = 8 * kEps32 * (std::fabs(x) + std::fabs(y)) + off;
                h.value[i] = sum;
                h.error[i] = std::isfinite(error) ? error : 0;
            };
            const double c = std::fabs(turn.cos), s = std::fabs(turn.sin);
            set(first, a * turn.cos, b * turn.sin, a * turn.cos - b * turn.sin, off_a * c + off_b * s);
            set(second, b * turn.cos, a * turn.sin, b * turn.cos + a * turn.sin, off_b * c + off_a * s);
        }
    }
}

// Stores to a tensor of tokens, or to a row of a cache, whose values are divided by its scale.
void store(const Tensor& to, std::int64_t begin, std::int64_t head_stride, const Tensor& scale,
           const HeadValues& h, Oracle& oracle) {
    for (std::int64_t i = 0; i < h.heads * h.dim; ++i) {
        const std::int64_t head = i / h.dim;
        double value = h.value[static_cast<std::size_t>(i)], error = h.error[static_cast<std::size_t>(i)];
        if (scale) {
            const float of = *(scale.as<const float>() + (scale.dim(0) == 1 ? 0 : head));
            value *= static_cast<double>(1.0f / of);
            error = error * static_cast<double>(std::fabs(1.0f / of)) + kEps32 * std::fabs(value);
            if (!std::isfinite(error)) error = 0;
        }
        oracle.store(to, begin + head * head_stride + i % h.dim, value, error);
    }
}

void reference(const QkNormRope& op, Oracle& oracle) {
    const std::int64_t tokens = op.tokens();
    const auto put = [&](const Tensor& out, const Tensor& cache, const Tensor& scale, std::int64_t token,
                         const HeadValues& h) {
        if (out) store(out, token_at(out, 3, token), out.stride[out.rank - 2], {}, h, oracle);
        if (!cache) return;
        const std::int64_t slot = load_integer(op.slots.dtype, op.slots.data, token_at(op.slots, 1, token));
        const std::int64_t size = cache.shape[1];
        if (slot < 0 || slot >= cache.shape[0] * size) return;
        store(cache, slot / size * cache.stride[0] + slot % size * cache.stride[1], cache.stride[2], scale, h,
              oracle);
    };
    for (std::int64_t token = 0; token < tokens; ++token) {
        HeadValues q = load(op.q, token);
        normalise(op, op.q_weight, q);
        rotate(op, token, q);
        put(op.q_out, {}, {}, token, q);
        if (op.k) {
            HeadValues k = load(op.k, token);
            normalise(op, op.k_weight, k);
            rotate(op, token, k);
            put(op.k_out, op.k_cache, op.k_scale, token, k);
        }
        if (op.v) put(op.v_out, op.v_cache, op.v_scale, token, load(op.v, token));
    }
}

const RegisterReference<QkNormRope> kReference{reference};

}  // namespace
}  // namespace weft
