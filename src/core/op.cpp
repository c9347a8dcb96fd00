// The registry, dispatch with reasons, and the verbose log.
#include "weft/op.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "core/cuda_api.h"
#if WEFT_HAS_EMULATOR
#include "emulator/emulator.h"
#endif
#include "weft/case.h"

namespace weft {
namespace {

// Filled by static initialisers, read-only afterwards.
std::map<std::string, OpEntry, std::less<>>& registry() {
    static std::map<std::string, OpEntry, std::less<>> ops;
    return ops;
}

struct Log {
    std::function<void(const std::string&)> sink;
    bool enabled = false;
};
Log& log_state() {
    static Log log = [] {
        Log initial;
        const char* verbose = std::getenv("WEFT_VERBOSE");
        if (verbose != nullptr && std::strstr(verbose, "dispatch") != nullptr) {
            initial.sink = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
            initial.enabled = true;
        }
        return initial;
    }();
    return log;
}

constexpr const char* kLeftOut = "left out by the context";

void log_dispatch(const OpEntry& entry, const void* op, Context& context) {
    std::string line = fmt::format("weft {} {}", context.info().name, Case::of(entry, op).line());
    for (const Verdict& v : explain(entry, op, context)) {
        line += v.reason.empty()       ? fmt::format("\n  {}: chosen ({})", v.implementation, v.config)
                : v.reason == kLeftOut ? fmt::format("\n  {}: {}", v.implementation, v.reason)
                                       : fmt::format("\n  {}: declined, {}", v.implementation, v.reason);
        if (v.reason.empty()) break;
    }
    log_state().sink(line);
}

[[noreturn]] void all_declined(const OpEntry& entry, const void* op, Context& context) {
    std::string message = fmt::format("no implementation for {} takes this call", context.info().name);
    for (const Verdict& v : explain(entry, op, context))
        message += fmt::format("; {}: {}", v.implementation, v.reason);
    message += fmt::format("\n  {}", Case::of(entry, op).line());
    throw Error(ErrorCode::unsupported, entry.contract().name(), "", message);
}

// The oldest capability (times ten) that nvcc compiles the kernels for.
constexpr int kOldestArch = 80;
constexpr const char* kTooOld =
    "weft's kernels start at compute capability 8.0 (bf16 arithmetic and asynchronous copies)";

// An implementation's own answer, after what holds for all that run on a GPU or stand for one. The CPU's arch is 0.
const char* declined(const AnyImplementation& i, const void* op, const DeviceInfo& device) {
    if (device.arch != 0 && device.arch < kOldestArch) return kTooOld;
    return i.decline(op, device);
}

// What a context adds to an implementation that does not decline by itself.
Readiness readiness(const AnyImplementation& i, const void* op, Context& context) {
    if (context.avoids(i.name)) return {kLeftOut};
    return i.prepare ? i.prepare(op, context) : Readiness{};
}

}  // namespace

const OpEntry* find_op(std::string_view name) {
    const auto it = registry().find(name);
    return it == registry().end() ? nullptr : &it->second;
}

std::vector<const OpEntry*> all_ops() {
    std::vector<const OpEntry*> ops;
    for (const auto& [name, entry] : registry()) ops.push_back(&entry);
    return ops;
}

namespace detail {

OpEntry& entry(std::string_view name, const Contract& (*contract)()) {
    OpEntry& e = registry()[std::string(name)];
    e.contract = contract;
    return e;
}

void insert(OpEntry& entry, DeviceType target, std::size_t place, AnyImplementation implementation) {
    auto& list = entry.implementations[static_cast<int>(target)];
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(place), std::move(implementation));
}

void add_reference(OpEntry& entry, OpFunction<void(Oracle&)> reference, OpFunction<void(Context&)> launch) {
    struct Any {};
    entry.reference = reference;
    entry.implementations[static_cast<int>(DeviceType::cpu)].push_back(
        {"reference", +[](const Any&, const DeviceInfo&) -> const char* { return nullptr; },
         +[](const Any&, const DeviceInfo&) { return std::string("plain loops, double accumulation"); },
         launch});
}

void run_reference(const OpEntry& entry, const void* op) {
    Oracle plain;
    entry.reference(op, plain);
}

const AnyImplementation* choose(const OpEntry& entry, const void* op, Context& context) {
    const Contract& contract = entry.contract();
    // The first that is there: the contract has seen to it that they are all on one device.
    const auto present =
        std::find_if(contract.fields().begin(), contract.fields().end(),
                     [&](const Field& f) { return static_cast<bool>(Contract::tensor(op, f)); });
    const Field& first = present == contract.fields().end() ? contract.fields().front() : *present;
    const Device device = Contract::tensor(op, first).device;
    if (!(device == context.device())) {
        throw Error(ErrorCode::invalid_argument, contract.name(), first.name,
                    fmt::format("is on {}:{}, but the context is for {}:{}", name(device.type), device.index,
                                name(context.device().type), context.device().index));
    }
    const cuda::DeviceGuard guard(device);
    if (log_state().enabled) log_dispatch(entry, op, context);
    for (const AnyImplementation& i : entry.implementations[static_cast<int>(device.type)]) {
        if (declined(i, op, context.info()) == nullptr && readiness(i, op, context).reason == nullptr)
            return &i;
    }
    all_declined(entry, op, context);
}

const AnyImplementation* launch(const OpEntry& entry, const AnyImplementation* chosen, const void* op,
                                Context& context) {
    const cuda::DeviceGuard guard(context.device());
#if WEFT_HAS_EMULATOR
    const emulator::StreamScope scope(context.stream().handle);
#endif
    while (true) {
        try {
            chosen->launch(op, context);
            return chosen;
        } catch (const Refused&) {
            const AnyImplementation* next = choose(entry, op, context);
            if (next == chosen) {
                throw Error(ErrorCode::internal, entry.contract().name(), "",
                            chosen->name + " refused a call that it still takes");
            }
            chosen = next;
        } catch (const Error& e) {
            if (e.code() == ErrorCode::invalid_argument) throw;
            throw Error(e.code(), entry.contract().name(), e.field(),
                        fmt::format("{} ({}): {}", chosen->name, Case::of(entry, op).line(), e.message()));
        }
    }
}

void run(const OpEntry& entry, const void* op, Context& context) {
    entry.contract().check_call(op);
    if (!entry.contract().is_empty(op)) launch(entry, choose(entry, op, context), op, context);
}

}  // namespace detail

std::vector<Verdict> explain(const OpEntry& entry, const void* op, const DeviceInfo& device) {
    std::vector<Verdict> verdicts;
    for (const AnyImplementation& i : entry.implementations[static_cast<int>(device.type)]) {
        const char* reason = declined(i, op, device);
        verdicts.push_back(
            {i.name, reason == nullptr ? "" : reason, reason == nullptr ? i.config(op, device) : ""});
    }
    return verdicts;
}

std::vector<Verdict> explain(const OpEntry& entry, const void* op, Context& context) {
    const cuda::DeviceGuard guard(context.device());
    std::vector<Verdict> verdicts = explain(entry, op, context.info());
    const auto& list = entry.implementations[static_cast<int>(context.info().type)];
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
        Verdict& v = verdicts[i];
        if (!v.reason.empty() && !context.avoids(v.implementation)) continue;
        const auto [reason, how] = readiness(list[i], op, context);
        if (reason != nullptr) {
            v.reason = reason;
            v.config.clear();
        } else if (*how != '\0') {
            v.config += (v.config.empty() ? "" : ", ") + std::string(how);
        }
    }
    return verdicts;
}

void set_log(std::function<void(const std::string&)> log) {
    log_state().enabled = static_cast<bool>(log);
    log_state().sink = std::move(log);
}

}  // namespace weft
