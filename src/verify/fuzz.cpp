// The fuzzing loop.
#include "verify/fuzz.h"

#include <algorithm>

namespace weft {
namespace {

std::uint64_t stream_of(const std::string& name) {  // every op draws its own numbers from one seed
    std::uint64_t stream = 0;
    for (const char c : name) stream = mix(stream ^ static_cast<unsigned char>(c));
    return stream;
}

// A case that the implementation asked for takes, where one is drawn.
std::optional<Case> draw_case(const OpEntry& op, const FuzzOptions& options, int index, Random& random) {
    constexpr int kOneIn = 12;  // cases
    for (int attempt = 0; attempt < options.draws; ++attempt) {
        const bool large = index % kOneIn == kOneIn - 1;
        auto c =
            large ? generate_large(op, device_info(options.device), random, options.limits) : std::nullopt;
        if (!c) c = generate(op, device_info(options.device), random, options.limits);
        if (!c || options.implementation.empty()) return c;
        const std::vector<std::string> takers = accepting(*c, options.device);
        if (std::find(takers.begin(), takers.end(), options.implementation) != takers.end()) return c;
    }
    return std::nullopt;
}

// Half of the cases go where dispatch sends them, the others to any that accepts.
std::string pick_implementation(const Case& c, const FuzzOptions& options, Random& random) {
    if (!options.implementation.empty()) return options.implementation;
    const std::vector<std::string> names = accepting(c, options.device);
    if (names.size() < 2 || random.below(2) == 0) return {};
    return random.pick(names);
}

Trial draw(const Case& c, const FuzzOptions& options, int index, Random& random) {
    const auto i = static_cast<std::size_t>(index);
    Trial trial{c, random.bits() % 1'000'000, options.values.value_or(kAllValues[i % std::size(kAllValues)]),
                0, pick_implementation(c, options, random)};
    if (options.device.type == DeviceType::emulator && index % 2 == 1)
        trial.order = 1 + random.bits() % 1'000'000;
    return trial;
}

// A trial that fails after others and passes alone: its command would not repeat that.
Outcome attempt_after_others(const Trial& trial, Device device, std::map<std::string, Context>& contexts) {
    auto& context =
        contexts.try_emplace(trial.implementation, context_for(trial.c.op(), device, trial.implementation))
            .first->second;
    Outcome outcome = attempt_generated(trial, context);
    if (!outcome.passed && !outcome.why.starts_with(name(ErrorCode::cuda)) &&
        attempt_generated(trial, device).passed)
        outcome.why +=
            "; not where it is the first call of its context: something kept from an earlier call shows";
    return outcome;
}

void count(FuzzReport& report, const Trial& trial, const Outcome& outcome, Device device) {
    ++report.cases;
    ++report.implementations[outcome.implementation.substr(0, outcome.implementation.find(' '))];
    if (!outcome.passed) report.failures.push_back({trial, outcome.why});
    if (outcome.passed && outcome.worst > report.worst) {
        report.worst = outcome.worst;
        report.worst_command = command(trial, device);
    }
}

}  // namespace

TrialSource::TrialSource(const OpEntry& op, const FuzzOptions& options)
    : op_(op), options_(options), random_(options.seed, stream_of(op.contract().name())) {}

std::optional<Trial> TrialSource::next() {
    const std::optional<Case> c = draw_case(op_, options_, index_, random_);
    if (!c) return std::nullopt;
    return draw(*c, options_, index_++, random_);
}

Outcome attempt_generated(const Trial& trial, Device device) {
    Context context = context_for(trial.c.op(), device, trial.implementation);
    return attempt_generated(trial, context);
}

Outcome attempt_generated(const Trial& trial, Context& context) {
    try {
        return attempt(trial, context);
    } catch (const std::exception& e) {
        Outcome outcome;
        outcome.passed = false;
        outcome.why = e.what();
        return outcome;
    }
}

FuzzReport fuzz(const OpEntry& op, const FuzzOptions& options) {
    FuzzReport report;
    if (op.implementations[static_cast<int>(options.device.type)].empty()) return report;
    TrialSource source(op, options);
    std::map<std::string, Context> contexts;  // by implementation
    for (int i = 0; i < options.cases; ++i) {
        const std::optional<Trial> trial = source.next();
        if (!trial) break;
        const Outcome outcome = attempt_after_others(*trial, options.device, contexts);
        count(report, *trial, outcome, options.device);
        if (options.progress) options.progress(i + 1);
        if (static_cast<int>(report.failures.size()) >= options.most_failures) break;
        // A CUDA error may have left the device's context unusable: later failures would mean nothing.
        if (!outcome.passed && outcome.why.starts_with(name(ErrorCode::cuda))) break;
    }
    return report;
}

std::vector<std::string> accepting(const Case& c, Device device) {
    std::vector<std::string> names;
    c.with_call(device, [&](const void* call) {
        for (const Verdict& v : explain(c.op(), call, device_info(device))) {
            if (v.reason.empty()) names.push_back(v.implementation);
        }
    });
    return names;
}

std::vector<Device> devices_here() {
    std::vector<Device> devices = {kCpu};
#if WEFT_HAS_EMULATOR
    devices.push_back(kEmulator);
#endif
    if (cuda_device_count() > 0) devices.push_back(kCuda);
    return devices;
}

}  // namespace weft
