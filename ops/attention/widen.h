// Attention over codes of fp8, made into 16 bits for flash_wgmma: which calls that takes. Plain C++, for kernels and tests
// alike.
#pragma once

#include <string>

#include "ops/attention/policy.h"

namespace weft::attention {

// The call on the widened tensors, which are dense in memory from `at` on, in 16 bits: those of k and v, and of q where it
// has codes. `factors` come behind them.
struct Widened {
    Attention op;
    std::size_t bytes = 0;  // of all of them
    float* factors = nullptr;

    Widened(const Attention& of, void* at);
};

const char* decline_widened(const Attention& op, const DeviceInfo& device);

}  // namespace weft::attention
