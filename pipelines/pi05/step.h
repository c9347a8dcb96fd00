// A pipeline is a list of steps: prepared op calls with the work their contracts state.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/op.h"

namespace weft {

struct Step {
    std::string label;  // what it does in the model: "gate_up", "attention"
    std::string op;     // which op does it
    std::string implementation;
    Work work;
    std::function<void()> run;
};

// Checks and dispatches each call once, as it is added.
class Steps {
   public:
    explicit Steps(Context& context) : context_(&context) {}

    template <class Op>
    void add(std::string label, const Op& op) {
        Prepared<Op> call(op, *context_);
        Step step{std::move(label), std::string(Op::kName), call.implementation(), Op::contract().work(&op),
                  call};
        steps_.push_back(std::move(step));
    }

    const std::vector<Step>& all() const { return steps_; }
    void run() const {
        for (const Step& step : steps_) step.run();
    }

   private:
    Context* context_;
    std::vector<Step> steps_;
};

}  // namespace weft
