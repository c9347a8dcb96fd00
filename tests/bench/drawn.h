// What tests of sampled cases share: many of an op that computes nothing.
#pragma once

#include "bench/draw.h"
#include "tests/verify/generated.h"

namespace weft::test {

inline constexpr int kDrawn = 1500;
inline constexpr std::size_t kOneIn = 100;  // what is rare is drawn that often
inline constexpr DrawLimits kAny = {.least_bytes = 0, .most_bytes = 1e12, .most_flops = 1e18};

inline std::vector<Case> drawn(std::string_view op, int count = kDrawn, const DrawLimits& limits = kAny) {
    return draw_cases({find_op(op)}, count, 1, limits);
}

}  // namespace weft::test
