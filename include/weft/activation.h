// The functions of one element that ops apply: one enumeration, of which each op's contract lists those that it takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace weft {

// σ is the logistic function 1/(1 + e^−x), Φ the distribution function of the normal distribution.
enum class Activation : std::int32_t {
    none,        // x
    silu,        // x·σ(x)
    gelu_tanh,   // 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))
    gelu_erf,    // x·Φ(x)
    gelu_quick,  // x·σ(1.702·x)
    sigmoid,     // σ(x)
    tanh,
    relu,        // max(x, 0)
    relu2,       // max(x, 0)²
    leaky_relu,  // x, alpha·x below 0
    elu,         // x, alpha·(e^x − 1) below 0
    hardswish,   // x·clamp(x + 3, 0, 6)/6; 0 at −∞
    hardshrink,  // 0 where |x| <= alpha, else x
};

// As case lines, Python and pages write it.
constexpr const char* name(Activation activation) {
    constexpr const char* kNames[] = {"none",    "silu",      "gelu_tanh", "gelu_erf", "gelu_quick",
                                      "sigmoid", "tanh",      "relu",      "relu2",    "leaky_relu",
                                      "elu",     "hardswish", "hardshrink"};
    static_assert(std::size(kNames) == static_cast<std::size_t>(Activation::hardshrink) + 1);
    return kNames[static_cast<std::size_t>(activation)];
}

}  // namespace weft
