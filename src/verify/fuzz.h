// Many generated cases of one op, each verified.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "verify/generate.h"
#include "verify/trial.h"

namespace weft {

struct FuzzOptions {
    Device device = kCpu;
    int cases = 1000;
    std::uint64_t seed = 0;
    std::optional<Values> values;  // absent: all kinds in turn
    std::string implementation;    // empty: in turn all that accept the case
    int draws = 10000;  // at most, until the implementation takes one: some take one in fifteen hundred
    GenerateLimits limits;
    int most_failures = 5;  // stops after so many
    std::function<void(int done)> progress = nullptr;
};

struct FuzzReport {
    struct Failure {
        Trial trial;
        std::string why;
    };
    int cases = 0;  // that ran; fewer than asked for where the generator found no more
    std::vector<Failure> failures;
    std::map<std::string, int> implementations;  // how often each one ran
    double worst = 0;                            // the largest Outcome::worst
    std::string worst_command;
};

// In the emulator every other case runs its threads and blocks in a random order. The cases of an implementation share
// one context, so that what it keeps between calls (plans, tables, scratch) is of other calls. Every twelfth case is
// larger, for what a kernel does beyond some size.
FuzzReport fuzz(const OpEntry& op, const FuzzOptions& options);

// The trials that fuzz() runs, one after the other.
class TrialSource {
   public:
    TrialSource(const OpEntry& op, const FuzzOptions& options);
    std::optional<Trial> next();  // nothing where the generator finds no more

   private:
    const OpEntry& op_;
    const FuzzOptions& options_;
    Random random_;
    int index_ = 0;
};

// attempt(), where a refusal is a failure too: a generated case is legal, and taken.
Outcome attempt_generated(const Trial& trial, Device device);
Outcome attempt_generated(const Trial& trial, Context& context);

// Implementations that take a case, in the order in which they are asked.
std::vector<std::string> accepting(const Case& c, Device device);

// The devices that this build and machine can run kernels on; the CPU always, a GPU and the emulator where
// there.
std::vector<Device> devices_here();

}  // namespace weft
