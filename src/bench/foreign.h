// A problem that the library has no op for: its operands and its right result are the caller's.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "bench/contest.h"

namespace weft {

struct ForeignOperands {
    double footprint = 0;  // bytes of one set
    bool overwrites_inputs = false;
    std::string checked_on;                      // which parts are compared; empty: all
    std::function<void(std::size_t set)> reset;  // outputs poisoned, what is updated in place restored
    // Why the result of the callable of that name on a set is wrong; empty where it is right.
    std::function<std::string(const std::string& name, std::size_t set)> compare;
};

class Foreign : public Contest {
   public:
    Foreign(ForeignOperands operands, Device device, Stream stream, const Work& work,
            const SampleOptions& options, const std::optional<CardRates>& rates = {})
        : Contest(device, stream, work, options, rates),
          operands_(std::move(operands)),
          sets_(cold_sets(operands_.footprint)) {}

    std::size_t sets() const override { return sets_; }

   private:
    void reset(std::size_t set) override { operands_.reset(set); }
    std::string compare(const Callable& callable, std::size_t set) override {
        return operands_.compare(callable.name, set);
    }
    bool overwrites_inputs() const override { return operands_.overwrites_inputs; }
    std::string checked_on() const override { return operands_.checked_on; }

    ForeignOperands operands_;
    std::size_t sets_;
};

}  // namespace weft
