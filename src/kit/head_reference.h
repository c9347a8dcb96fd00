// What references of ops over heads share: a token's heads with the errors that fp32 arithmetic may have made so far.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kit/rotary.h"
#include "weft/oracle.h"

namespace weft::kit {

// Where a token begins in a tensor whose last `trailing` axes are the token's own and the tokens before them.
inline std::int64_t token_begin(const Tensor& t, int trailing, std::int64_t token) {
    std::int64_t at = 0;
    for (int axis = t.rank - trailing; axis >= 0; --axis) {
        at += token % t.shape[axis] * t.stride[axis];
        token /= t.shape[axis];
    }
    return at;
}

// The heads of one token of [..., tokens, heads, dim]: values that correct arithmetic meets within ± error.
struct HeadValues {
    std::int64_t heads, dim;
    std::vector<double> value, error;

    HeadValues(const Tensor& t, std::int64_t token) : heads(t.dim(-2)), dim(t.dim(-1)) {
        const std::int64_t begin = token_begin(t, 3, token);
        for (std::int64_t head = 0; head < heads; ++head) {
            for (std::int64_t i = 0; i < dim; ++i)
                value.push_back(load_element(t.dtype, t.data, begin + head * t.stride[t.rank - 2] + i));
        }
        error.assign(value.size(), 0.0);
    }
    void set(std::size_t i, double y, double off) {
        value[i] = y;
        error[i] = std::isfinite(off) ? off : 0;
    }

    // Each stretch of `count` values over the root of its mean square; a weight repeats from its end on.
    void normalise(std::int64_t count, double eps, const Tensor& weight, double weight_offset) {
        const double bound = kEps32 * (32 + static_cast<double>(count) / 1024);
        for (std::int64_t first = 0; first < heads * dim; first += count) {
            double squares = 0;
            for (std::int64_t i = first; i < first + count; ++i)
                squares += value[static_cast<std::size_t>(i)] * value[static_cast<std::size_t>(i)];
            const double scale = 1 / std::sqrt(squares / static_cast<double>(count) + eps);
            for (std::int64_t i = first; i < first + count; ++i) {
                const double factor =
                    weight ? load_element(weight.dtype, weight.data, i % weight.dim(0)) + weight_offset : 1;
                const auto at = static_cast<std::size_t>(i);
                const double y = value[at] * scale * factor;
                set(at, y, bound * std::fabs(y));
            }
        }
    }

    void turn(std::int64_t head, std::int64_t first, std::int64_t second, const Turn& by) {
        const auto i = static_cast<std::size_t>(head * dim + first),
                   j = static_cast<std::size_t>(head * dim + second);
        const double a = value[i], b = value[j], a_off = error[i], b_off = error[j];
        const double c = std::fabs(by.cos), s = std::fabs(by.sin), round = 8 * kEps32;
        set(i, a * by.cos - b * by.sin,
            (round * std::fabs(a) + a_off) * c + (round * std::fabs(b) + b_off) * s);
        set(j, b * by.cos + a * by.sin,
            (round * std::fabs(b) + b_off) * c + (round * std::fabs(a) + a_off) * s);
    }

    // To heads that begin at `begin`, over the scale of all or of each head where there is one.
    void store(const Tensor& to, std::int64_t begin, std::int64_t head_stride, const Tensor& scale,
               Oracle& oracle) const {
        for (std::int64_t i = 0; i < heads * dim; ++i) {
            const std::int64_t head = i / dim;
            double y = value[static_cast<std::size_t>(i)], off = error[static_cast<std::size_t>(i)];
            if (scale) {
                const double inverse =
                    static_cast<double>(1.0f / *(scale.as<const float>() + (scale.dim(0) == 1 ? 0 : head)));
                y *= inverse;
                off = off * std::fabs(inverse) + kEps32 * std::fabs(y);
                if (!std::isfinite(off)) off = 0;
            }
            oracle.store(to, begin + head * head_stride + i % dim, y, off);
        }
    }
};

}  // namespace weft::kit
