// Numbers as references of rounding=eager compute them: one rounding an operator, as PyTorch's.
#pragma once

#include <algorithm>
#include <cmath>

#include "weft/oracle.h"

namespace weft {

// A number on its way through operators, each of which computes in fp32 and rounds to the dtype of its result; and the
// least and the most that it may be where fp32 erred before. The operators are monotone: both ends go as the number does.
struct Stepped {
    double value = 0, low = 0, high = 0;

    static Stepped exact(double value) { return {value, value, value}; }
    static Stepped within(double value, double error) {
        return std::isfinite(error) ? Stepped{value, value - error, value + error} : exact(value);
    }
    Stepped to(DType dtype) const {
        const auto round = [&](double v) { return round_to(dtype, round_to(DType::fp32, v)); };
        return {round(value), round(low), round(high)};
    }
    double error() const {
        if (low == high || (std::isnan(value) && std::isnan(low) && std::isnan(high))) return 0;
        const double error = std::max(value - low, high - value);
        return std::isfinite(error) ? error : Oracle::kUndetermined;
    }
    void store(const Tensor& to, std::int64_t offset, Oracle& oracle) const {
        oracle.store(to, offset, value, error());
    }
};
inline Stepped operator+(const Stepped& a, const Stepped& b) {
    return {a.value + b.value, a.low + b.low, a.high + b.high};
}
inline Stepped operator-(const Stepped& a, const Stepped& b) {
    return {a.value - b.value, a.low - b.high, a.high - b.low};
}
inline Stepped operator*(const Stepped& a, const Stepped& b) {
    const double ends[] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
    return {a.value * b.value, *std::min_element(ends, ends + 4), *std::max_element(ends, ends + 4)};
}

}  // namespace weft
