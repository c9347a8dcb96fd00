// The angles of rotary embedding, as the specification of the ops that turn heads reads them.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>

#include "weft/tensor.h"

namespace weft::kit {

// base^(−2·pair / rotary_dim), rounded once to fp32. Kernels get these numbers from the host, so that every
// device turns by the very same angles.
inline float rotary_frequency(float base, std::int64_t rotary_dim, std::int64_t pair) {
    const double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(rotary_dim);
    return static_cast<float>(std::pow(static_cast<double>(base), exponent));
}

struct Turn {
    double cos, sin;
};

// How far a pair turns at a position; zeros where tables are given and lack it.
template <class Op>
Turn rotary_turn(const Op& op, std::int64_t position, std::int64_t pair) {
    if (!op.cos) {
        const float angle = static_cast<float>(position) * rotary_frequency(op.base, op.rotated(), pair);
        return {std::cos(static_cast<double>(angle)), std::sin(static_cast<double>(angle))};
    }
    if (position < 0 || position >= op.cos.dim(0)) return {0, 0};
    const auto at = [&](const Tensor& table) {
        return load_element(table.dtype, table.data, position * table.stride[0] + pair * table.stride[1]);
    };
    return {at(op.cos), at(op.sin)};
}

// Turns every pair of one head. `load(i)` gives element i, `store(i, value, error)` takes it; both elements
// of a pair are loaded before either is stored. `error` allows a table or a computed angle two ulps, and fp32
// its sums. Where `round` is given, products and sums are rounded by it, and exact but for that.
template <class Op, class Load, class Store, class Round = std::identity>
void rotate_head(const Op& op, std::int64_t head_dim, std::int64_t position, Load load, Store store,
                 Round round = {}) {
    const std::int64_t rotated = op.rotated();
    for (std::int64_t pair = 0; pair < rotated / 2; ++pair) {
        const bool half = op.pairs == Op::Pairs::half;
        const std::int64_t first = half ? pair : 2 * pair, second = half ? pair + rotated / 2 : first + 1;
        const Turn turn = rotary_turn(op, position, pair);
        const double a = load(first), b = load(second);
        const auto error = [](double x, double y) {
            if (!std::is_same_v<Round, std::identity>) return 0.0;
            const double bound = 8 * 0x1p-24 * (std::fabs(x) + std::fabs(y));
            return std::isfinite(bound) ? bound : 0;
        };
        const double ac = round(a * turn.cos), as = round(a * turn.sin), bc = round(b * turn.cos),
                     bs = round(b * turn.sin);
        store(first, round(ac - bs), error(ac, bs));
        store(second, round(bc + as), error(bc, as));
    }
    for (std::int64_t i = rotated; i < head_dim; ++i) store(i, load(i), 0.0);
}

}  // namespace weft::kit
