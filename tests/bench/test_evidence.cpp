// What rows of evidence say of a measurement whose times are known.
#include "bench/evidence.h"

#include <gmock/gmock.h>

#include <cstdlib>

namespace weft::test {
namespace {

Result timed(const std::string& name, Side side, std::vector<double> samples) {
    Result result;
    result.name = name;
    result.side = side;
    result.checked = true;
    Timing timing;
    timing.samples = std::move(samples);
    timing.us = summarize(timing.samples);
    result.at(Time::device, Cache::cold) = timing;
    return result;
}

Measurement made_up() {
    Measurement m;
    m.floor_us = 0.5;
    m.results = {timed("weft", Side::weft, {2, 2, 2}), timed("rival", Side::baseline, {4, 4, 4}),
                 timed("card copy", Side::baseline, {1, 1, 1}), timed("rival", Side::noise, {4, 4, 4}),
                 Result{}};
    m.results[2].computes = false;
    m.results[4].name = "wrong";
    m.results[4].why = "out[0]: got 1, expected 2";
    return m;
}

TEST(Evidence, SaysOfRivalsHowMuchSlowerTheyAre) {
    const auto rows = measurement_rows("probe x=fp32[4,8]", made_up(), {"run", "env", ""});
    ASSERT_EQ(rows.size(), 5u);
    EXPECT_DOUBLE_EQ(rows[1]["weft_speedup"]["ratio"], 2.0);
    EXPECT_DOUBLE_EQ(rows[1]["weft_speedup"]["low"], 2.0);
    EXPECT_DOUBLE_EQ(rows[1]["weft_speedup"]["high"], 2.0);
    for (const int other : {0, 2, 3, 4}) EXPECT_FALSE(rows[other].contains("weft_speedup")) << other;
    EXPECT_EQ(made_up().best(Time::device, Cache::cold)->name, "rival") << "a copy is no rival";
}

TEST(Evidence, SaysWhatWasWrongAndGivesItNoTime) {
    const auto rows = measurement_rows("probe x=fp32[4,8]", made_up(), {"run", "env", ""});
    for (const int right : {0, 1, 2, 3}) EXPECT_EQ(rows[right]["checked"], true);
    EXPECT_EQ(rows[4]["checked"], false);
    EXPECT_TRUE(rows[4]["us"].is_null());
    EXPECT_EQ(rows[4]["samples"], 0);
    EXPECT_EQ(rows[4]["why"], "out[0]: got 1, expected 2");
}

TEST(Evidence, SaysWhichSamplesWereLeftOutAndAtWhatClock) {
    Measurement m = made_up();
    Timing& timing = *m.results[1].at(Time::device, Cache::cold);
    timing.dropped = 3;
    timing.power_capped = 2;
    timing.sm_mhz = {1500, 1900, 1700};
    const auto rows = measurement_rows("probe x=fp32[4,8]", m, {"run", "env", ""});
    EXPECT_EQ(rows[1]["samples"], 3);
    EXPECT_EQ(rows[1].value("dropped", 0), 3);
    EXPECT_EQ(rows[1].value("power_capped", 0), 2);
    EXPECT_DOUBLE_EQ(rows[1].value("sm_mhz", 0.0), 1700);
    for (const char* field : {"dropped", "power_capped", "sm_mhz"}) EXPECT_FALSE(rows[0].contains(field));
}

TEST(Evidence, SaysOfWhichSourcesItIs) {
    setenv("WEFT_COMMIT", "0123abcd", 1);
    for (const auto& [said, dirty] : {std::pair("0", false), std::pair("1", true), std::pair("", true)}) {
        setenv("WEFT_DIRTY", said, 1);
        const nlohmann::json row = environment_row(kCpu, "weft bench");
        EXPECT_EQ(row["commit"], "0123abcd");
        EXPECT_EQ(row["dirty"], dirty) << said;
    }
    setenv("WEFT_COMMIT", "", 1);
    EXPECT_TRUE(environment_row(kCpu, "weft bench")["dirty"].is_null()) << "nobody knows";
    unsetenv("WEFT_COMMIT");
    unsetenv("WEFT_DIRTY");
}

}  // namespace
}  // namespace weft::test
