// Is an implementation right? Compares it with the reference on fresh random inputs.
#pragma once

#include <cstdint>
#include <string>

#include "verify/instance.h"

namespace weft {

struct Outcome {
    bool passed = true;
    std::string why;             // the first thing wrong: field, element, got, expected; empty where passed
    std::string implementation;  // that ran
    double worst = 0;  // largest distance from the reference, in units of what is allowed (1 = the limit)
};

// Runs the case on `device` with outputs poisoned and compares every element with the reference's interval;
// inputs, guards and the gaps of strided outputs must be untouched; a second run over another poison must
// give the same bits. Of very long calls a part of the elements is compared (Oracle::wants). Throws only what
// `run` throws for a bad call. With the name of an implementation, that one runs, not the first that accepts.
Outcome verify(const Case& c, Device device, std::uint64_t seed = 0, Values values = Values::usual,
               const std::string& implementation = {});

// What Oracle::sample gets, so that no reference takes longer than a few seconds.
std::int64_t sample_of(const Case& c);

// What every outcome is about, for `result` of `instance` against the oracle of the same inputs.
Outcome compare(const Case& c, const Instance& result, const Instance& expected, const Oracle& oracle);

}  // namespace weft
