// The fuzzing loop: which trials it runs, what it counts, and when it stops.
#include "verify/fuzz.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "verify/verify.h"
#include "weft/op.h"

namespace weft::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// out = 0, by three implementations: one declines rows shorter than 8, one all.
struct Fuzzed {
    static constexpr std::string_view kName = "fuzzed";
    Tensor x{}, out{};
    static inline void (*does)(const Fuzzed&) = nullptr;  // after the right result

    static const Contract& contract() {
        using Op = Fuzzed;
        static const Contract c = Describe<Op>(std::string(kName), "out = 0")
                                      .in("x", &Op::x, "... dim", kFloat, "the rows")
                                      .out("out", &Op::out, "... dim", DType::fp32, "the result")
                                      .tolerance("none")
                                      .source("nothing");
        return c;
    }
};
void reference(const Fuzzed& op, Oracle& oracle) {
    for (std::int64_t i = 0; i < op.out.numel(); ++i) {
        const std::int64_t dim = op.out.dim(-1), row = i / dim;
        std::int64_t offset = 0, rest = row;
        for (int axis = op.out.rank - 2; axis >= 0; --axis) {
            offset += rest % op.out.shape[axis] * op.out.stride[axis];
            rest /= op.out.shape[axis];
        }
        oracle.store(op.out, offset + i % dim, 1, 0.5);
    }
}
void launch(const Fuzzed& op, Context&) {
    Oracle plain;
    reference(op, plain);
    if (Fuzzed::does != nullptr) Fuzzed::does(op);
}
std::string config(const Fuzzed&, const DeviceInfo&) { return "of a kind"; }
const RegisterReference<Fuzzed> kReference{reference};
const RegisterImplementations<Fuzzed> kList{
    DeviceType::cpu,
    {{"any", +[](const Fuzzed&, const DeviceInfo&) -> const char* { return nullptr; }, config, launch},
     {"wide",
      +[](const Fuzzed& op, const DeviceInfo&) -> const char* {
          return op.x.dim(-1) < 8 ? "short" : nullptr;
      },
      config, launch},
     {"never", +[](const Fuzzed&, const DeviceInfo&) -> const char* { return "never"; }, config, launch}}};
const RegisterImplementations<Fuzzed> kEmulated{
    DeviceType::emulator,
    {{"emulated", +[](const Fuzzed&, const DeviceInfo&) -> const char* { return nullptr; }, config, launch}}};

struct Fuzzing : testing::Test {
    ~Fuzzing() override { Fuzzed::does = nullptr; }
    FuzzReport run() const { return fuzz(*find_op("fuzzed"), options); }
    std::vector<Trial> trials(int count) const {
        TrialSource source(*find_op("fuzzed"), options);
        std::vector<Trial> found;
        for (int i = 0; i < count; ++i) found.push_back(*source.next());
        return found;
    }
    FuzzOptions options;
};

TEST_F(Fuzzing, GoesThroughAllKindsOfValues) {
    const auto found = trials(70);
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].values, kAllValues[i % 7]);
    options.values = Values::wide;
    for (const Trial& trial : trials(20)) EXPECT_EQ(trial.values, Values::wide);
}

TEST_F(Fuzzing, DrawsAnotherSeedForEachTrial) {
    std::set<std::uint64_t> seeds;
    for (const Trial& trial : trials(200)) {
        seeds.insert(trial.seed);
        EXPECT_LT(trial.seed, 1'000'000u) << "short enough to be typed";
        EXPECT_EQ(trial.order, 0u) << "the emulator alone has orders";
    }
    EXPECT_GT(seeds.size(), 190u);
    const auto first = trials(20);
    const auto again = trials(20);
    for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(command(first[i], kCpu), command(again[i], kCpu));
    options.seed = 1;
    EXPECT_NE(command(trials(1)[0], kCpu), command(first[0], kCpu));
}

TEST_F(Fuzzing, RunsEveryOtherTrialOfTheEmulatorInARandomOrder) {
    options.device = kEmulator;
    std::set<std::uint64_t> orders;
    const auto found = trials(100);
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (i % 2 == 0) {
            EXPECT_EQ(found[i].order, 0u);
        }
        if (i % 2 == 0) continue;
        EXPECT_TRUE(found[i].order >= 1 && found[i].order <= 1'000'000) << found[i].order;
        orders.insert(found[i].order);
    }
    EXPECT_GT(orders.size(), 45u);
}

TEST_F(Fuzzing, GivesTrialsToAllThatAcceptThem) {
    std::map<std::string, int> found;
    for (const Trial& trial : trials(400)) {
        ++found[trial.implementation];
        const auto names = accepting(trial.c, kCpu);
        const bool wide = trial.c.tensors[0].shape.back() >= 8;
        if (wide) {
            EXPECT_THAT(names, ElementsAre("any", "wide", "reference"));
        }
        if (!wide) {
            EXPECT_THAT(names, ElementsAre("any", "reference"));
        }
        if (!trial.implementation.empty()) {
            EXPECT_THAT(names, testing::Contains(trial.implementation));
        }
    }
    EXPECT_GT(found[""], 100) << "where dispatch sends them";
    for (const char* name : {"any", "wide", "reference"}) EXPECT_GT(found[name], 30) << name;
    EXPECT_EQ(found.size(), 4u);
}

TEST_F(Fuzzing, DrawsCasesThatTheNamedImplementationTakes) {
    options.implementation = "wide";
    for (const Trial& trial : trials(60)) {
        EXPECT_EQ(trial.implementation, "wide");
        EXPECT_GE(trial.c.tensors[0].shape.back(), 8);
    }
    options.implementation = "never";
    TrialSource source(*find_op("fuzzed"), options);
    EXPECT_FALSE(source.next().has_value());
    EXPECT_EQ(run().cases, 0);
}

TEST_F(Fuzzing, DrawsALargerCaseEveryTwelfthTime) {
    std::vector<int> long_axes(24);
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        options.seed = seed;
        const auto found = trials(24);
        for (std::size_t i = 0; i < 24; ++i)
            long_axes[i] += std::ranges::max(found[i].c.tensors[0].shape) >= 300 ? 1 : 0;
    }
    for (std::size_t i = 0; i < 24; ++i) {
        if (i % 12 == 11) {
            EXPECT_GT(long_axes[i], 20) << i;
        }
        if (i % 12 != 11) {
            EXPECT_LT(long_axes[i], 10) << i;
        }
    }
}

TEST_F(Fuzzing, CountsWhatRanByItsName) {
    options.cases = 60;
    std::vector<int> done;
    options.progress = [&](int n) { done.push_back(n); };
    const FuzzReport report = run();
    EXPECT_EQ(report.cases, 60);
    EXPECT_EQ(done.size(), 60u);
    EXPECT_EQ(done.front(), 1);
    EXPECT_EQ(done.back(), 60);
    int sum = 0;
    for (const auto& [name, count] : report.implementations) {
        EXPECT_THAT(name, testing::Not(HasSubstr("of a kind"))) << "without its configuration";
        sum += count;
    }
    EXPECT_EQ(sum, 60);
    EXPECT_TRUE(report.failures.empty());
    options.device = kCuda;
    EXPECT_EQ(fuzz(*find_op("fuzzed"), options).cases, 0) << "no implementation, nothing to fuzz";
}

TEST_F(Fuzzing, KeepsTheWorstOfThoseThatPassed) {
    options.cases = 30;
    options.values = Values::usual;
    static int calls;
    calls = 0;
    EXPECT_EQ(run().worst, 0);
    EXPECT_EQ(run().worst_command, "");
    Fuzzed::does = [](const Fuzzed& op) {
        if (op.out.numel() == 0) return;
        const int trial = calls++ / 2;  // of which each runs twice
        if (trial == 6) op.out.as<float>()[0] = 1.25f;
        if (trial == 10) op.out.as<float>()[0] = 0.9f;
    };
    const FuzzReport report = run();
    EXPECT_TRUE(report.failures.empty());
    EXPECT_THAT(report.worst_command, HasSubstr("weft verify 'fuzzed x="));
    EXPECT_EQ(report.worst, 0.5);
}

TEST_F(Fuzzing, StopsAfterSoManyFailures) {
    options.cases = 200;
    Fuzzed::does = [](const Fuzzed& op) {
        if (op.out.numel() > 0) op.out.as<float>()[0] = 7;
    };
    EXPECT_EQ(run().failures.size(), 5u);
    options.most_failures = 2;
    const FuzzReport report = run();
    EXPECT_EQ(report.failures.size(), 2u);
    EXPECT_LT(report.cases, 50);
    EXPECT_EQ(report.worst, 0) << "of those that passed";
    EXPECT_THAT(report.failures[0].why, HasSubstr("got 7, expected 1"));
    EXPECT_THAT(report.failures[0].why, testing::Not(HasSubstr("something kept"))) << "it fails alone, too";
    Fuzzed::does = [](const Fuzzed&) { throw Error(ErrorCode::cuda, "", "", "an illegal address"); };
    EXPECT_EQ(run().failures.size(), 1u) << "the device is of no use any more";
    Fuzzed::does = [](const Fuzzed&) { throw Error(ErrorCode::unsupported, "", "", "not here"); };
    const FuzzReport refused = run();
    ASSERT_EQ(refused.failures.size(), 2u) << "a case that was generated is legal";
    EXPECT_THAT(refused.failures[0].why, HasSubstr("not here"));
}

TEST_F(Fuzzing, TellsFailuresThatNeedTheCallsBefore) {
    options.cases = 40;
    options.implementation = "any";
    static int calls;
    calls = 0;
    Fuzzed::does = [](const Fuzzed& op) {
        if (op.out.numel() > 0 && ++calls == 30) op.out.as<float>()[0] = 7;
    };
    const FuzzReport report = run();
    ASSERT_EQ(report.failures.size(), 1u);
    EXPECT_THAT(
        report.failures[0].why,
        testing::EndsWith("; not where it is the first call of its context: something kept from an earlier "
                          "call shows"));
    EXPECT_EQ(report.cases, 40);
}

TEST_F(Fuzzing, RunsWhereThisMachineCan) {
    const std::vector<Device> devices = devices_here();
    EXPECT_EQ(devices.front(), kCpu);
    EXPECT_EQ(std::ranges::count(devices, kCuda), cuda_device_count() > 0 ? 1 : 0);
#if WEFT_HAS_EMULATOR
    EXPECT_EQ(std::ranges::count(devices, kEmulator), 1);
#endif
}

TEST_F(Fuzzing, GivesEveryOpNumbersOfItsOwn) {
    TrialSource ours(*find_op("fuzzed"), options), other(*find_op("softmax"), options);
    EXPECT_NE(ours.next()->seed, other.next()->seed);
}

}  // namespace
}  // namespace weft::test
