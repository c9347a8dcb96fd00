// Attention whose products are those of fp8: which calls it takes, and what it prepares. Plain C++, for kernels and tests
// alike.
#pragma once

#include "ops/attention/policy.h"

namespace weft::attention {

inline constexpr int kTransposedKeys = 128;  // of a tile of values; their number is filled up to whole tiles

// What is prepared in memory from `at` on: the values' codes [batch, kv_heads, v_dim, keys], zeros where a key does not exist
// or is masked, and behind them the factors of each key head's scores and values.
struct TransposedValues {
    Tensor codes;
    std::size_t bytes = 0;  // of both
    float* factors = nullptr;

    TransposedValues(const Attention& of, void* at);
};

const char* decline_fp8(const Attention& op, const DeviceInfo& device);

}  // namespace weft::attention
