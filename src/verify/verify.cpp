// Verification: two poisoned runs against the reference's intervals.
#include "verify/verify.h"

#include "core/ladder.h"

#if WEFT_HAS_EMULATOR
#include "emulator/emulator.h"
#endif

namespace weft {
namespace {

void set_emulator_poison([[maybe_unused]] int poison) {
#if WEFT_HAS_EMULATOR
    emulator::set_poison(static_cast<std::uint8_t>(poison));
#endif
}

// What an earlier call left there must not show. Calls that ask for more get fresh memory once.
void poison_scratch(Context& context, int poison) {
    constexpr std::size_t kBytes = std::size_t{1} << 20;
    fill_bytes(context.scratch(kBytes), context.device(), poison, kBytes);
}

}  // namespace

std::string taken_by(const Case& c, const void* call, Context& context) {
    for (const Verdict& v : explain(c.op(), call, context)) {
        if (v.reason.empty()) return v.config.empty() ? v.implementation : v.implementation + " " + v.config;
    }
    return "none";
}

Context context_for(const OpEntry& op, Device device, const std::string& implementation) {
    // In the emulator a stream of its own: a launch that names the default one shows.
    static char emulated_stream;
    Context context(device, device == kEmulator ? Stream{&emulated_stream} : Stream{});
    for (const AnyImplementation& i : op.implementations[static_cast<int>(device.type)]) {
        if (!implementation.empty() && i.name != implementation) context.avoid(i.name);
    }
    return context;
}

bool repeats_bits(const Case& c, Device device, std::string_view taken) {
    if (!c.contract().deterministic()) return false;
    const ladder::Rung* rung = ladder::find(taken.substr(0, taken.find(' ')));
    return device.type != DeviceType::cuda || rung == nullptr || rung->part("Order").empty();
}

Outcome verify(const Case& c, Device device, std::uint64_t seed, Values values,
               const std::string& implementation) {
    Context context = context_for(c.op(), device, implementation);
    return verify(c, context, seed, values);
}

Outcome verify(const Case& c, Context& context, std::uint64_t seed, Values values) {
    const Device device = context.device();
    const Drawing drawing{values, device.type != DeviceType::cpu};
    Reference reference(Instance(c, kCpu, seed, drawing), {.hardware = device.type == DeviceType::cuda},
                        seed);
    Outcome outcome;
    std::size_t first = 0;
    for (const int poison : {0xff, 0x55}) {
        set_emulator_poison(poison);
        const Instance result(c, device, seed, drawing, poison);
        poison_scratch(context, poison);
        result.run(context);
        outcome = reference.compare(result);
        outcome.implementation = taken_by(c, result.call(), context);
        if (!outcome.passed) return outcome;
        if (poison == 0xff) {
            first = outcome.bits;
        } else if (outcome.bits != first && repeats_bits(c, device, outcome.implementation)) {
            outcome.passed = false;
            outcome.why = "two runs differ: the result depends on memory that nothing wrote, or on order";
        }
    }
    return outcome;
}

}  // namespace weft
