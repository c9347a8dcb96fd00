// Operands and a right result that are the caller's: the same order of checks, and the same refusals.
#include "bench/foreign.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "bench/evidence.h"

namespace weft::test {
namespace {

using testing::HasSubstr;

constexpr int kPoison = -1, kRight = 7;

// One set of one number, which a right call sets to 7.
struct Caller {
    int value = 0;
    ForeignOperands operands() {
        ForeignOperands made;
        made.footprint = sizeof value;
        made.reset = [this](std::size_t) { value = kPoison; };
        made.compare = [this](const std::string& name, std::size_t) {
            return value == kRight ? "" : name + " gave " + std::to_string(value);
        };
        return made;
    }
};

Measurement measured(Caller& caller, std::function<void(int& value)> work, const Work& least = {4, 0},
                     const CardRates& rates = {}, Device device = kCpu) {
    Foreign foreign(caller.operands(), device, {}, least,
                    {.rounds = 3, .replay_us = 20, .seed = 1, .eager = true}, rates);
    Callable candidate;
    candidate.name = "candidate";
    candidate.side = Side::weft;
    candidate.call = [&caller, work](std::size_t) { work(caller.value); };
    Callable baseline = candidate;
    baseline.name = "baseline";
    baseline.side = Side::baseline;
    baseline.call = [&caller](std::size_t) { caller.value = kRight; };
    foreign.add(candidate);
    foreign.add(baseline);
    return foreign.run();
}

TEST(ForeignProblem, TimesWhatIsRightBesideItsBaselineAndNoise) {
    Caller caller;
    const Measurement m = measured(caller, [](int& value) { value = kRight; });
    ASSERT_EQ(m.results.size(), 3u);
    EXPECT_EQ(m.results[2].side, Side::noise);
    EXPECT_EQ(m.results[2].name, "baseline");
    for (const Result& r : m.results) EXPECT_TRUE(r.checked) << r.why;
    for (const auto& row : measurement_rows("own x=fp32[1]", m, {"run", "env", ""})) {
        EXPECT_EQ(row["case"], "own x=fp32[1]");
        EXPECT_FALSE(row["us"].is_null());
    }
}

// Noise is a time of the device: of a baseline that has none there is nothing to repeat.
TEST(ForeignProblem, TakesTheNoiseOfTheFirstBaselineThatCanBeRecorded) {
    Caller caller;
    Foreign foreign(caller.operands(), kCpu, {}, Work{4, 0}, {.rounds = 3, .replay_us = 20, .seed = 1}, {});
    Callable each;
    each.call = [&caller](std::size_t) { caller.value = kRight; };
    for (const char* name : {"candidate", "unrecorded", "recorded", "another"}) {
        each.name = name;
        each.side = each.name == "candidate" ? Side::weft : Side::baseline;
        each.recordable = each.name != "unrecorded";
        foreign.add(each);
    }
    const Measurement m = foreign.run();
    ASSERT_EQ(m.results.size(), 5U);
    EXPECT_EQ(m.results[4].side, Side::noise);
    EXPECT_EQ(m.results[4].name, "recorded");
}

TEST(ForeignProblem, RefusesWhatTheCallerCallsWrong) {
    Caller caller;
    const Measurement m = measured(caller, [](int& value) { value = 8; });
    EXPECT_THAT(m.weft()->why, HasSubstr("candidate gave 8"));
    EXPECT_TRUE(m.results[1].checked);
}

TEST(ForeignProblem, RefusesWhatIsRightInTheFirstRunOnly) {
    Caller caller;
    int calls = 0;
    const Measurement m = measured(caller, [&calls](int& value) { value = ++calls > 1 ? 9 : kRight; });
    EXPECT_THAT(m.weft()->why, HasSubstr("after timing: candidate gave 9"));
}

TEST(ForeignProblem, RefusesWhatLeavesTheFirstResultInPlace) {
    Caller caller;
    int calls = 0;
    const Measurement m = measured(caller, [&calls](int& value) {
        if (++calls == 1) value = kRight;
    });
    EXPECT_THAT(m.weft()->why, HasSubstr("after timing: candidate gave -1"));
}

TEST(ForeignProblem, RefusesATimeBelowTheFloor) {
    Caller caller;
    const CardRates rates{1, 1, 1, 1, 1, 1};
    const Measurement m = measured(caller, [](int& value) { value = kRight; }, {1e15, 0}, rates);
    EXPECT_THAT(m.weft()->why, HasSubstr("below the floor"));
}

// What the L2 holds may be there for a hot time, and never for a cold one.
TEST(ForeignProblem, HoldsColdTimesToAllOfTheBytes) {
    Caller caller;
    const auto l2 = static_cast<double>(device_info(kEmulator).l2_bytes);
    if (l2 == 0) GTEST_SKIP() << "no emulator";
    const CardRates rates{1e-3, 1e-3, 1e9, 1e9, 1e9, 1e-9};  // its bytes take a millisecond
    const auto right = [](int& value) { value = kRight; };
    EXPECT_THAT(measured(caller, right, {l2 + 1, 0}, rates, kEmulator).weft()->why,
                HasSubstr("(cold) is below the floor"));
    const Measurement fits = measured(caller, right, {l2, 0}, rates, kEmulator);
    EXPECT_TRUE(fits.weft()->checked) << fits.weft()->why;
}
// Of two sets of operands, each of twice the L2, the one that hot calls work on takes less time than all of its bytes.
TEST(ForeignProblem, HoldsHotTimesToTheBytesThatTheL2DoesNotHold) {
    Caller caller;
    const auto l2 = static_cast<double>(device_info(kEmulator).l2_bytes);
    if (l2 == 0) GTEST_SKIP() << "no emulator";
    const auto why = [&](double hot_ms) {
        ForeignOperands operands = caller.operands();
        operands.footprint = 2 * l2;
        Foreign foreign(std::move(operands), kEmulator, {}, {2 * l2, 0},
                        {.rounds = 3, .replay_us = 20, .seed = 1, .eager = false},
                        CardRates{l2 * 1e-9, l2 * 1e-9, 1e9, 1e9, 1e9, 1e-9});  // the L2's bytes take a ms
        EXPECT_EQ(foreign.sets(), 2u);
        Callable candidate;
        candidate.name = "candidate";
        candidate.side = Side::weft;
        candidate.call = [&caller, hot_ms](std::size_t set) {
            std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(set == 0 ? hot_ms : 5));
            caller.value = kRight;
        };
        foreign.add(candidate);
        return foreign.run().weft()->why;
    };
    EXPECT_EQ(why(1.1), "");
    EXPECT_THAT(why(0), HasSubstr("(hot) is below the floor of 1000.00 us"));
}

}  // namespace
}  // namespace weft::test
