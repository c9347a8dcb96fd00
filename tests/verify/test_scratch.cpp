// Scratch memory of a verified call: where it ends, and that it is poisoned.
#include <gmock/gmock.h>

#include <cstring>
#include <vector>

#include "verify/verify.h"
#include "weft/op.h"
#if WEFT_HAS_EMULATOR
#include "emulator/emulator.h"
#endif

namespace weft::test {
namespace {

using testing::ElementsAre;

// out = 0, with scratch memory that a test says what is done with.
struct Scratched {
    static constexpr std::string_view kName = "scratched";
    Tensor x{}, out{};
    static inline std::size_t asked = 0, written = 0, more_later = 0;  // in calls behind the first
    static inline std::vector<int> poisons;                            // of the emulator, in each call

    static const Contract& contract() {
        using Op = Scratched;
        static const Contract c = Describe<Op>(std::string(kName), "out = 0")
                                      .in("x", &Op::x, "dim", kFloat, "numbers")
                                      .out("out", &Op::out, "dim", kFloat, "numbers")
                                      .tolerance("none")
                                      .source("nothing");
        return c;
    }
};
void scratch_nothing(const Scratched& op, Oracle& oracle) {
    for (std::int64_t i = 0; i < op.out.numel(); ++i) oracle.store(op.out, i, 0);
}
const RegisterReference<Scratched> kScratchNothing{scratch_nothing};
const RegisterImplementations<Scratched> kScratching{
    DeviceType::cpu,
    {{"scratching", +[](const Scratched&, const DeviceInfo&) -> const char* { return nullptr; },
      +[](const Scratched&, const DeviceInfo&) { return std::string(); },
      +[](const Scratched& op, Context& context) {
          const std::size_t more = Scratched::poisons.empty() ? 0 : Scratched::more_later;
          std::memset(context.scratch(Scratched::asked), 0, Scratched::written + more);
#if WEFT_HAS_EMULATOR
          Scratched::poisons.push_back(emulator::poison());
#else
          Scratched::poisons.push_back(0);
#endif
          Oracle plain;
          scratch_nothing(op, plain);
      }}}};

// A megabyte is poisoned beforehand: what is asked for may end anywhere in it.
TEST(Scratch, EndsWhereItWasAskedToEvenNearItsEnd) {
    constexpr std::size_t kThere = std::size_t{1} << 20;
    for (const std::size_t asked : {std::size_t{1}, kThere - 5000, kThere - 4096, kThere - 100, kThere - 1}) {
        for (const std::size_t more : {0, 1}) {
            Scratched::asked = asked;
            Scratched::written = asked + more;
            const Outcome outcome = verify(Case::parse("scratched x=fp32[4]"), kCpu);
            EXPECT_EQ(outcome.passed, more == 0) << asked << " + " << more;
            EXPECT_EQ(outcome.why,
                      more == 0 ? "" : "bytes behind the scratch memory that was asked for were written");
        }
    }
    for (const std::size_t asked : {kThere, kThere + 1, 3 * kThere}) {
        Scratched::asked = Scratched::written = asked;
        EXPECT_TRUE(verify(Case::parse("scratched x=fp32[4]"), kCpu).passed) << asked;
    }
}

// By the second call it is known how much is asked for, and what lies behind that is poisoned, too.
TEST(Scratch, BeyondTheMegabyteEndsWhereTheFirstCallAskedTo) {
    Scratched::asked = Scratched::written = std::size_t{3} << 20;
    for (const std::size_t more : {0, 1}) {
        Scratched::poisons.clear();
        Scratched::more_later = more;
        EXPECT_EQ(verify(Case::parse("scratched x=fp32[4]"), kCpu).passed, more == 0);
    }
    Scratched::more_later = 0;
}

#if WEFT_HAS_EMULATOR
TEST(Emulated, MemoryIsPoisonedAnewForEachRun) {
    Scratched::asked = Scratched::written = 1;
    Scratched::poisons.clear();
    EXPECT_TRUE(verify(Case::parse("scratched x=fp32[4]"), kCpu).passed);
    EXPECT_THAT(Scratched::poisons, ElementsAre(0xff, 0x55));
}
#endif

}  // namespace
}  // namespace weft::test
