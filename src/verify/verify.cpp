// Verification: two poisoned runs against the reference's intervals.
#include "verify/verify.h"

#include <algorithm>
#include <vector>

#include "core/ladder.h"
#include "core/sanitizer.h"
#include "weft/memory.h"

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

// A sanitizer looks at who accesses what: other builds compare all of a long call's results, it compares parts. And it needs
// the second run, beside which the first's last kernel may still be running, of short calls alone.
ReferenceLimits limits_on(Device device) {
    ReferenceLimits limits{.hardware = device.type == DeviceType::cuda};
    if (kSanitized) limits.operations = 1e6;
    return limits;
}

bool runs_once(const Instance& instance) {
    constexpr double kShort = 4e6;  // operations
    return kSanitized && instance.source().contract().work(instance.call()).flops > kShort;
}

// What an earlier call left in scratch must not show, and what lies behind the bytes that a call asks for must stay.
class PoisonedScratch {
   public:
    // `least`: what the call is known to ask for. Where it asks for more than there is, it gets fresh memory.
    PoisonedScratch(Context& context, int poison, std::size_t least)
        : context_(context), poison_(poison), bytes_(std::max(kBytes, least + kBehind)) {
        fill_bytes(context_.scratch(bytes_), context_.device(), poison_, bytes_);
        context_.take_scratch_asked();
    }

    // What the call has asked for.
    std::size_t asked() {
        asked_ = std::max(asked_, context_.take_scratch_asked());
        return asked_;
    }
    bool kept_behind() {
        if (asked() >= bytes_) return true;
        std::vector<unsigned char> behind(std::min(kBehind, bytes_ - asked_));
        const auto* scratch = static_cast<const unsigned char*>(context_.scratch(bytes_));
        copy_bytes(behind.data(), kCpu, scratch + asked_, context_.device(), behind.size());
        return std::ranges::all_of(behind, [&](unsigned char byte) { return byte == poison_; });
    }

   private:
    static constexpr std::size_t kBytes = std::size_t{1} << 20, kBehind = 4096;
    Context& context_;
    int poison_;
    std::size_t bytes_, asked_ = 0;
};

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
    Reference reference(Instance(c, kCpu, seed, drawing), limits_on(device), seed);
    Outcome outcome;
    std::size_t first = 0, asked = 0;
    for (const int poison : {0xff, 0x55}) {
        set_emulator_poison(poison);
        const Instance result(c, device, seed, drawing, poison);
        PoisonedScratch scratch(context, poison, asked);
        result.run(context);
        asked = scratch.asked();
        outcome = reference.compare(result);
        if (outcome.passed && !scratch.kept_behind()) {
            outcome.passed = false;
            outcome.why = "bytes behind the scratch memory that was asked for were written";
        }
        outcome.implementation = taken_by(c, result.call(), context);
        if (!outcome.passed) return outcome;
        if (poison == 0xff) {
            first = outcome.bits;
            if (runs_once(result)) break;
        } else if (outcome.bits != first && repeats_bits(c, device, outcome.implementation)) {
            outcome.passed = false;
            outcome.why = "two runs differ: the result depends on memory that nothing wrote, or on order";
        }
    }
    return outcome;
}

}  // namespace weft
