// Trials: their names, their repetition, and the last words of a process that dies in one.
#include "verify/trial.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#if WEFT_HAS_EMULATOR
#include "emulator/emulator.h"
#endif

// The sanitizers' runtimes have it; a plain build does not.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace weft {
namespace {

constexpr std::string_view kNames[] = {"usual", "wide", "tiny", "constant", "special", "rising", "ties"};

char last_words[4096];  // what to print on death; empty outside of a trial

void print_last_words() {
    if (last_words[0] == 0) return;
    [[maybe_unused]] const auto written = write(STDERR_FILENO, last_words, std::strlen(last_words));
}

void die(int signal) {
    print_last_words();
    std::signal(signal, SIG_DFL);
    raise(signal);
}

class LastWords {
   public:
    explicit LastWords(const std::string& text) {
        const std::size_t length = std::min(text.size(), sizeof(last_words) - 1);
        std::memcpy(last_words, text.data(), length);
        last_words[length] = 0;
    }
    ~LastWords() { last_words[0] = 0; }
};

class Order {
   public:
    explicit Order([[maybe_unused]] std::uint64_t seed) {
#if WEFT_HAS_EMULATOR
        before_ = emulator::order();
        if (seed != 0) emulator::set_order(seed);
#endif
    }
    ~Order() {
#if WEFT_HAS_EMULATOR
        emulator::set_order(before_);
#endif
    }

   private:
    [[maybe_unused]] std::uint64_t before_ = 0;
};

}  // namespace

std::string_view name(Values values) { return kNames[static_cast<int>(values)]; }

std::optional<Values> parse_values(std::string_view text) {
    for (const Values values : kAllValues) {
        if (name(values) == text) return values;
    }
    return std::nullopt;
}

std::string command(const Trial& trial, Device device) {
    std::string text = fmt::format("weft verify '{}' --device {} --seed {} --values {}", trial.c.line(),
                                   name(device.type), trial.seed, name(trial.values));
    if (!trial.implementation.empty()) text += " --implementation " + trial.implementation;
    if (trial.order != 0) text += fmt::format(" --order {}", trial.order);
    return text;
}

Outcome attempt(const Trial& trial, Device device) {
    Context context = context_for(trial.c.op(), device, trial.implementation);
    return attempt(trial, context);
}

Outcome attempt(const Trial& trial, Context& context) {
    const LastWords words(
        fmt::format("\nThe process died in this trial:\n  {}\n", command(trial, context.device())));
    const Order order(trial.order);
    try {
        return verify(trial.c, context, trial.seed, trial.values);
    } catch (const Error& e) {
        if (e.code() == ErrorCode::invalid_argument || e.code() == ErrorCode::unsupported) throw;
        Outcome outcome;
        outcome.passed = false;
        outcome.why = fmt::format("{}: {}", name(e.code()), e.what());
        return outcome;
    }
}

void announce_deaths() {
    if (__sanitizer_set_death_callback != nullptr) {
        __sanitizer_set_death_callback(print_last_words);
        return;
    }
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, die);
}

}  // namespace weft
