// One verification with everything that repeats it: the case, the seed, the values, the order of threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "verify/verify.h"

namespace weft {

inline constexpr Values kAllValues[] = {Values::usual,   Values::wide,   Values::tiny, Values::constant,
                                        Values::special, Values::rising, Values::ties};
std::string_view name(Values values);
std::optional<Values> parse_values(std::string_view text);

struct Trial {
    Case c;
    std::uint64_t seed = 0;
    Values values = Values::usual;
    std::uint64_t order = 0;          // of threads and blocks in the emulator: 0 the natural one
    std::string implementation = {};  // empty: the first that accepts
};

// The command line that runs it again.
std::string command(const Trial& trial, Device device);

// verify(), but a kernel that breaks down (an emulator fault, a CUDA error) is an outcome like a wrong
// result. Throws where the call is bad or no implementation takes it.
Outcome attempt(const Trial& trial, Device device);
// The same in a context that ran other trials before, made by `context_for` the trial's implementation.
Outcome attempt(const Trial& trial, Context& context);

// From now on, a death of the process inside attempt() (a sanitizer's report, a signal) ends with the command
// line of the trial that did it.
void announce_deaths();

}  // namespace weft
