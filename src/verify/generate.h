// Random legal cases of an op, from its contract alone.
#pragma once

#include <cstdint>
#include <optional>

#include "verify/random.h"
#include "weft/case.h"

namespace weft {

struct GenerateLimits {
    double elements = 40'000;  // of all fields together
    double flops = 4'000'000;  // by the contract's own count
};

// A case that satisfies the contract and that some implementation for `device` accepts; nothing if none was
// found in many draws.
std::optional<Case> generate(const OpEntry& op, const DeviceInfo& device, Random& random,
                             const GenerateLimits& limits);

// The same with one of its axes far longer: more rows than a grid has blocks, rows beyond what a block holds, heads and
// batches by the hundred. Several times as many elements and flops as `limits` are within it.
std::optional<Case> generate_large(const OpEntry& op, const DeviceInfo& device, Random& random,
                                   const GenerateLimits& limits);

}  // namespace weft
