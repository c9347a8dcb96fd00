// A case's operands, its reference, and what computes it.
#include "bench/bench.h"

#include <algorithm>
#include <string_view>

#include "core/ladder.h"
#include "verify/verify.h"

namespace weft {
namespace {

// Entries of an op's list that are a vendor's library: baselines, unless they are what dispatch chooses.
constexpr std::string_view kVendors[] = {"cublaslt", "cudnn"};

Work work_of(const Case& c, Device device) {
    Work work;
    c.with_call(device, [&](const void* call) { work = c.contract().work(call); });
    return work;
}

}  // namespace

Bench::Bench(const Case& c, Device device, const BenchOptions& options, Stream stream)
    : Contest(device, stream, work_of(c, device), options.sample, options.rates),
      case_(c),
      options_(options),
      instance_(c, device, options.sample.seed, Values::usual),
      rotation_(instance_, cold_sets(static_cast<double>(instance_.footprint()))) {}

// weft through one entry of the op's list, or through the first that accepts.
Callable Bench::implementation(Side side, const std::string& only) { return entry(side, case_.op(), only); }

Callable Bench::entry(Side side, const OpEntry& entry, const std::string& only) {
    contexts_.push_back(std::make_unique<Context>(context().device(), context().stream()));
    Context* context = contexts_.back().get();
    // Of a library the best it has, as `weft tune` would have it.
    context->set_tuning(options_.tuned || side == Side::baseline);
    for (const AnyImplementation& i : entry.implementations[static_cast<int>(context->device().type)]) {
        if (!only.empty() && i.name != only) context->avoid(i.name);
    }
    Callable callable;
    callable.side = side;
    const Case c = ladder::with_entry(entry, case_);
    callable.name = taken_by(c, instance_.call(), *context);
    callable.call = [this, context, &entry](std::size_t set) {
        detail::run(entry, rotation_[set].call(), *context);
    };
    callable.taken = [this, context, c] { return taken_by(c, instance_.call(), *context); };
    return callable;
}

std::string Bench::chosen() { return implementation(Side::weft, options_.implementation).name; }

void Bench::add_weft() { add(implementation(Side::weft, options_.implementation)); }

void Bench::add_entry(const OpEntry& other) {
    for (const Verdict& v : explain(other, instance_.call(), context())) {
        if (!v.reason.empty()) continue;
        Callable callable = entry(Side::baseline, other, v.implementation);
        callable.name = v.implementation;  // its only one: it has no configuration worth a name
        callable.taken = nullptr;
        return add(std::move(callable));
    }
}

void Bench::add_vendors() {
    const std::string name = chosen(), own = name.substr(0, name.find(' '));
    for (const Verdict& v : explain(case_.op(), instance_.call(), context())) {
        const bool vendor =
            std::find(std::begin(kVendors), std::end(kVendors), v.implementation) != std::end(kVendors);
        if (vendor && v.reason.empty() && (v.implementation != own || !options_.tuned))
            add(implementation(Side::baseline, v.implementation));
    }
}

bool Bench::overwrites_inputs() const {
    for (std::size_t i = 0; i < case_.tensors.size(); ++i) {
        const TensorSpec& spec = case_.tensors[i];
        if (spec.present && (spec.alias >= 0 || case_.contract().fields()[i].role == Role::inout))
            return true;
    }
    return false;
}

std::string Bench::compare(const Callable& callable, std::size_t set) {
    const Outcome outcome = reference_->compare(rotation_[set]);
    if (!outcome.passed || callable.side != Side::weft ||
        !repeats_bits(case_, context().device(), callable.name))
        return outcome.why;
    if (first_bits_ == 0) first_bits_ = outcome.bits;
    return outcome.bits == first_bits_ ? "" : "two calls gave different bits";
}

std::optional<std::string> Bench::compare_chain(std::size_t set) {
    if (!chain_) return std::nullopt;
    const std::string touched = reference_->compare_rest(rotation_[set]);
    return touched.empty() ? chain_(set) : touched;
}

Measurement Bench::run() {
    reference_.emplace(instance_, options_.reference, options_.sample.seed);
    return Contest::run();
}

}  // namespace weft
