// group_norm's executable specification.
#include <algorithm>
#include <cmath>

#include "ops/group_norm/group_norm.h"
#include "weft/op.h"

namespace weft {
namespace {

struct Group {
    double mean = 0, mean_error = 0, inverse = 0, inverse_error = 0;  // the last one relative
};

// Calls use(channel, offset in x, offset in out) for each element of a group.
template <class Use>
void each(const GroupNorm& op, std::int64_t batch, std::int64_t group, Use use) {
    const std::int64_t channels = op.x.dim(1) / op.groups;
    for (std::int64_t c = group * channels; c < (group + 1) * channels; ++c) {
        for (std::int64_t s = 0; s < op.x.dim(2); ++s) {
            const auto at = [&](const Tensor& t) {
                return batch * t.stride[0] + c * t.stride[1] + s * t.stride[2];
            };
            use(c, at(op.x), at(op.out));
        }
    }
}

Group statistics(const GroupNorm& op, std::int64_t batch, std::int64_t group) {
    double count = 0, sum = 0, magnitude = 0, squares = 0;
    const auto load = [&](std::int64_t at) { return load_element(op.x.dtype, op.x.data, at); };
    each(op, batch, group, [&](std::int64_t, std::int64_t at, std::int64_t) {
        ++count;
        sum += load(at);
        magnitude += std::fabs(load(at));
    });
    Group g{.mean = sum / count};
    each(op, batch, group, [&](std::int64_t, std::int64_t at, std::int64_t) {
        squares += (load(at) - g.mean) * (load(at) - g.mean);
    });
    const double deviation = std::sqrt(squares / count + static_cast<double>(op.eps));
    g.mean_error = 40 * kEps32 * magnitude / count;
    g.inverse = 1 / deviation;
    // The distances from a mean that is off: their squares by twice the product, and by the square.
    const double off = g.mean_error / deviation;
    g.inverse_error = 64 * kEps32 + 2 * off * std::sqrt(static_cast<double>(kEps32)) + off * off;
    return g;
}

void reference(const GroupNorm& op, Oracle& oracle) {
    const auto of = [](const Tensor& t, std::int64_t c, double absent) {
        return t ? load_element(t.dtype, t.data, c) : absent;
    };
    for (std::int64_t batch = 0; batch < op.x.dim(0); ++batch) {
        for (std::int64_t group = 0; op.x.dim(2) > 0 && op.x.dim(1) > 0 && group < op.groups; ++group) {
            const Group g = statistics(op, batch, group);
            each(op, batch, group, [&](std::int64_t c, std::int64_t from, std::int64_t to) {
                const double n = (load_element(op.x.dtype, op.x.data, from) - g.mean) * g.inverse;
                const double weight = of(op.weight, c, 1), bias = of(op.bias, c, 0);
                double y = n * weight + bias;
                double error =
                    std::fabs(weight) * (g.mean_error * g.inverse + std::fabs(n) * g.inverse_error) +
                    4 * kEps32 * (std::fabs(n * weight) + std::fabs(y));
                if (op.activation == GroupNorm::Activation::silu) {
                    const double t = y, relative = 16 + 5 * std::fabs(t) / (1 + std::exp(t));
                    y = t / (1 + std::exp(-t));
                    error =
                        1.13 * error + kEps32 * relative * std::fabs(y) + 0x1p-125 * std::fabs(t) + 0x1p-148;
                }
                oracle.store(op.out, to, y, std::isfinite(y) && std::isfinite(error) ? error : 0);
            });
        }
    }
}

const RegisterReference<GroupNorm> kReference{reference};

}  // namespace
}  // namespace weft
