// A counter-based generator: the value at (seed, stream, index) does not depend on order.
#pragma once

#include <cmath>
#include <cstdint>
#include <iterator>
#include <numbers>

namespace weft {

constexpr std::uint64_t mix(std::uint64_t x) {  // splitmix64's finaliser
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

class Random {
   public:
    explicit Random(std::uint64_t seed, std::uint64_t stream = 0) : state_(mix(seed ^ mix(stream + 1))) {}

    std::uint64_t bits() { return mix(state_++); }
    std::int64_t below(std::int64_t n) {
        return static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(n));
    }
    double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }  // [0, 1)
    double normal() {
        const double radius = std::sqrt(-2 * std::log(1 - uniform()));
        return radius * std::cos(2 * std::numbers::pi * uniform());
    }
    template <class Container>
    const auto& pick(const Container& c) {
        return c[static_cast<std::size_t>(below(static_cast<std::int64_t>(std::size(c))))];
    }

   private:
    std::uint64_t state_;
};

}  // namespace weft
