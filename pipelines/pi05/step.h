// A pipeline is a list of steps: prepared op calls with the work their contracts state.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/op.h"

namespace weft {

struct Step {
    std::string label;                            // what it does in the model: "gate_up", "attention"
    std::string op;                               // which op does it
    std::function<std::string()> implementation;  // known for good once it has run
    std::string config;
    Work work;
    std::function<void()> run;
};

// Checks and dispatches each call once, as it is added.
class Steps {
   public:
    explicit Steps(Context& context) : context_(&context) {}

    template <class Op>
    void add(std::string label, const Op& op) {
        const auto call = std::make_shared<Prepared<Op>>(op, *context_);
        std::string config;
        const auto device = static_cast<int>(context_->device().type);
        for (const AnyImplementation& i : find_op(Op::kName)->implementations[device]) {
            if (i.name == call->implementation()) config = i.config(&op, context_->info());
        }
        steps_.push_back({std::move(label), std::string(Op::kName), [call] { return call->implementation(); },
                          std::move(config), Op::contract().work(&op), [call] { (*call)(); }});
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
