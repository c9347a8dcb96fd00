// Is an implementation right? Compares it with the reference on fresh random inputs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "verify/comparison.h"

namespace weft {

// Runs the case on `device` with outputs poisoned and compares every element with the reference's interval;
// inputs, guards and the gaps of strided outputs must be untouched; a second run over another poison must
// give the same bits. Of very long calls parts are compared (Reference). Throws only what
// `run` throws for a bad call. With the name of an implementation, that one runs, not the first that accepts.
Outcome verify(const Case& c, Device device, std::uint64_t seed = 0, Values values = Values::usual,
               const std::string& implementation = {});
// The same in a context that ran other calls before: what it keeps between them must not show. Its scratch is poisoned
// before each run, and what lies behind the bytes that the call asks for must keep its poison.
Outcome verify(const Case& c, Context& context, std::uint64_t seed, Values values);

// A context that dispatches to the implementation of this name only; empty: to all.
Context context_for(const OpEntry& op, Device device, const std::string& implementation);

// The implementation that takes a call in this context, with its configuration; "none" where none does.
std::string taken_by(const Case& c, const void* call, Context& context);

// Must two runs give the same bits by the implementation `taken` (a name, with its configuration)? A rung of the ladder
// may leave the order of additions to a GPU and say so; the emulator runs both in the same order.
bool repeats_bits(const Case& c, Device device, std::string_view taken);

}  // namespace weft
