// What people read of measurements whose times are known: every number, every verdict, and what is left out.
#include "bench/text.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "bench/floor.h"
#include "bench/rotation.h"

namespace weft::test {
namespace {

using testing::HasSubstr;
using testing::Not;

Timing timing(std::vector<double> samples) {
    Timing made;
    made.samples = std::move(samples);
    made.us = summarize(made.samples);
    return made;
}

Result timed(const std::string& name, Side side, std::vector<double> samples) {
    Result result;
    result.name = name;
    result.side = side;
    result.checked = true;
    result.at(Time::device, Cache::cold) = timing(std::move(samples));
    return result;
}

DeviceInfo card() {
    DeviceInfo info;
    info.copy_tbps = 3;
    info.read_tbps = 4;
    info.fp32_tflops = 50;
    return info;
}

Measurement made_up() {
    Measurement m;
    m.work = {.bytes = 4e7, .flops = 1e3};
    m.floor_us = 10;
    m.results = {timed("ours", Side::weft, {20, 20, 20}), timed("rival", Side::baseline, {30, 30, 30})};
    return m;
}

std::vector<std::string> lines(const Measurement& m) {
    std::vector<std::string> found;
    std::string text = measurement_text("a case", m, card());
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = text.find('\n', at);
        found.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return found;
}

TEST(Text, HasALineForEachResult) {
    const auto text = lines(made_up());
    ASSERT_EQ(text.size(), 5u);
    EXPECT_EQ(text[0], "a case");
    EXPECT_EQ(text[1], "  floor 10.00 us: 40 MB, 1e-06 GFLOP, bound by memory");
    EXPECT_EQ(text[2], "  " + std::string(53, ' ') + "   cold us    hot us  eager us  floor");
    EXPECT_EQ(text[3], "  weft     ours" + std::string(40, ' ') +
                           "     20.00         -         -   50 %    2.00 TB/s");
    EXPECT_EQ(text[4], "  baseline rival" + std::string(39, ' ') +
                           "     30.00         -         -   33 %    1.33 TB/s  1.50x (1.50-1.50) weft wins");
}

TEST(Text, SaysWhatWasComparedAndWhatWasWrong) {
    Measurement m = made_up();
    m.checked_on = "8 parts";
    m.results[1].checked = false;
    m.results[1].why = "out[0]: got 1";
    m.results.push_back(m.results[1]);
    m.results[2].why = fmt::format("{}out of luck", kFailed);
    const auto text = lines(m);
    EXPECT_EQ(text[2], "  compared with the reference: 8 parts");
    EXPECT_THAT(text[5], testing::EndsWith("wrong: out[0]: got 1"));
    EXPECT_THAT(text[6], testing::EndsWith(" failed: out of luck"));
    EXPECT_THAT(text[6], Not(HasSubstr("wrong")));
}

TEST(Text, NamesTheVerdict) {
    const auto verdict = [](std::vector<double> ours, std::vector<double> theirs) {
        Measurement m = made_up();
        m.results = {timed("ours", Side::weft, std::move(ours)),
                     timed("rival", Side::baseline, std::move(theirs))};
        return lines(m).back();
    };
    EXPECT_THAT(verdict({20, 20, 20}, {10, 10, 10}), HasSubstr("0.50x (0.50-0.50) weft loses"));
    EXPECT_THAT(verdict({20, 20, 20}, {20, 20, 20}), HasSubstr("1.00x (1.00-1.00) level"));
    EXPECT_THAT(verdict({20, 20, 20}, {25, 25, 25}), HasSubstr("1.25x (1.25-1.25) weft wins"));
    Measurement m = made_up();
    m.results[1].computes = false;
    EXPECT_THAT(lines(m).back(), Not(HasSubstr("x ("))) << "a copy is no rival";
    m = made_up();
    m.results[1].at(Time::device, Cache::cold).reset();
    m.results[1].at(Time::eager, Cache::hot) = timing({44, 44, 44});
    m.results[1].at(Time::device, Cache::hot) = timing({33, 33, 33});
    EXPECT_EQ(lines(m).back(),
              "  baseline rival" + std::string(39, ' ') + "         -     33.00     44.00      -");
}

TEST(Text, MarksWhatIsToBeKnownOfATime) {
    Measurement m = made_up();
    m.results[0].rounds_between = true;
    m.results[0].at(Time::device, Cache::cold)->dropped = 2;
    EXPECT_THAT(lines(m)[3], testing::EndsWith("TB/s (rounds in between) (2 samples dropped: throttled)"));
    EXPECT_THAT(lines(m)[4], Not(HasSubstr("rounds")));
    EXPECT_THAT(lines(m)[4], Not(HasSubstr("dropped")));
}

TEST(Text, TellsOfALaunchWhereTheFloorIsShort) {
    Measurement m = made_up();
    m.results.push_back(timed("card launch", Side::baseline, {2, 2, 2}));
    m.results[2].computes = false;
    EXPECT_EQ(lines(m).size(), 5u) << "beside 10 us it says nothing";
    m.floor_us = 5;
    EXPECT_EQ(lines(m).size(), 5u);
    m.floor_us = 4.99;
    ASSERT_EQ(lines(m).size(), 6u);
    EXPECT_THAT(lines(m)[5], HasSubstr("card launch"));
    EXPECT_THAT(lines(m)[5], Not(HasSubstr("%"))) << "an empty kernel has no floor";
    m.floor_us = 0;
    EXPECT_EQ(lines(m).size(), 4u) << "no floor, no line of it and no launch";
    EXPECT_THAT(lines(m)[2], testing::EndsWith("     20.00         -         -      -"));
}

TEST(Floors, AreOfTheFasterOfTheTwoRates) {
    const DeviceInfo d = card();
    EXPECT_EQ(floor_text({.bytes = 4e12, .flops = 0}, d),
              "floor 1000000.00 us: 4e+06 MB, 0 GFLOP, bound by memory");
    EXPECT_EQ(floor_text({.bytes = 1e3, .flops = 5e13}, d),
              "floor 1000000.00 us: 0.001 MB, 5e+04 GFLOP, bound by arithmetic");
    EXPECT_EQ(rate_text({.bytes = 4e6, .flops = 1}, d, 0), "");
    EXPECT_EQ(rate_text({.bytes = 4e6, .flops = 1}, d, 1), "4.00 TB/s");
    EXPECT_EQ(rate_text({.bytes = 4e6, .flops = 5e7}, d, 1), "4.00 TB/s") << "as long in either unit";
    EXPECT_EQ(rate_text({.bytes = 4e6, .flops = 6e7}, d, 1), "60 TFLOP/s");
    DeviceInfo reads = d;
    reads.copy_tbps = 5;
    EXPECT_THAT(floor_text({.bytes = 5e6}, reads), HasSubstr("floor 1.00 us"));
    DeviceInfo unknown = d;
    unknown.fp32_tflops = 0;
    EXPECT_EQ(rate_text({.bytes = 4e6, .flops = 6e9}, unknown, 1), "4.00 TB/s");
    EXPECT_EQ(floor_text({.bytes = 4e6}, unknown), "");
}

TEST(Summaries, CountCasesWinsAndLosses) {
    Summary summary;
    EXPECT_EQ(summary.text(), "0 cases, 0 of weft's results wrong; no baseline to compare with\n");
    EXPECT_EQ(summary.distribution(true), "");
    EXPECT_EQ(summary.distribution(false), "");
    const auto add = [&](const char* title, double ours, double theirs) {
        Measurement m = made_up();
        m.results = {timed("ours", Side::weft, {ours, ours, ours}),
                     timed("slow", Side::baseline, {1000, 1000, 1000}),
                     timed(std::string("rival of ") + title, Side::baseline, {theirs, theirs, theirs}),
                     timed("card copy", Side::baseline, {1, 1, 1})};
        m.results[3].computes = false;
        summary.add(title, m);
    };
    add("a", 20, 40);
    add("b", 20, 10);
    add("c", 20, 20);
    add("d", 20, 160);
    EXPECT_EQ(summary.text(),
              "4 cases, 0 of weft's results wrong; against the best baseline of each of 4 (device, cold): "
              "geometric "
              "mean 1.68x, worst 0.50x (b, against rival of b); 2 won, 1 lost, 1 level\n");
    EXPECT_EQ(summary.distribution(false),
              "against the best baseline (4 cases): geometric mean 1.68, 10th percentile 0.65, 25 % under "
              "0.9; worst\n"
              "  0.50  b  (rival of b)\n  1.00  c  (rival of c)\n  2.00  a  (rival of a)\n  8.00  d  (rival "
              "of d)\n");
    EXPECT_THAT(summary.distribution(true),
                testing::StartsWith("against the floor (4 cases): geometric mean 0.50, 10th percentile 0.50, "
                                    "100 % under 0.9; worst\n  0.50  "));
    EXPECT_THAT(summary.distribution(true), HasSubstr("(the floor)"));
}

TEST(Summaries, LeaveOutWhatHasNoTime) {
    Summary summary;
    Measurement wrong = made_up();
    wrong.results[0].checked = false;
    wrong.results[0].at(Time::device, Cache::cold).reset();
    summary.add("wrong", wrong);
    EXPECT_EQ(summary.text(), "1 cases, 1 of weft's results wrong; no baseline to compare with\n");
    Measurement alone = made_up();
    alone.results.pop_back();
    alone.floor_us = 0;
    summary.add("alone", alone);
    EXPECT_EQ(summary.text(), "2 cases, 1 of weft's results wrong; no baseline to compare with\n");
    EXPECT_EQ(summary.distribution(true), "") << "no floor is known";
    Measurement others = made_up();
    others.results.erase(others.results.begin());
    summary.add("others", others);
    EXPECT_EQ(summary.text(), "3 cases, 1 of weft's results wrong; no baseline to compare with\n");
    for (int i = 0; i < 12; ++i) {
        Measurement m = made_up();
        m.floor_us = 18;
        summary.add("n", m);
    }
    const std::string text = summary.distribution(true);
    EXPECT_THAT(text, HasSubstr("(12 cases): geometric mean 0.90, 10th percentile 0.90, 0 % under 0.9"));
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 11) << "the worst ten";
}

TEST(Results, AreFoundBySideAndTime) {
    Measurement m = made_up();
    EXPECT_EQ(m.weft()->name, "ours");
    m.results.push_back(timed("quick", Side::baseline, {25, 25, 25}));
    m.results.push_back(timed("as quick", Side::baseline, {25, 25, 25}));
    m.results.push_back(timed("again", Side::noise, {1, 1, 1}));
    EXPECT_EQ(m.best(Time::device, Cache::cold)->name, "quick") << "the first of equals";
    EXPECT_EQ(m.best(Time::device, Cache::hot), nullptr);
    EXPECT_EQ(m.best(Time::eager, Cache::cold), nullptr);
    m.results.erase(m.results.begin());
    EXPECT_EQ(m.weft(), nullptr);
    EXPECT_STREQ(name(Side::weft), "weft");
    EXPECT_STREQ(name(Side::baseline), "baseline");
    EXPECT_STREQ(name(Side::noise), "noise");
    EXPECT_STREQ(name(Time::device), "device");
    EXPECT_STREQ(name(Time::eager), "eager");
    EXPECT_STREQ(name(Cache::cold), "cold");
    EXPECT_STREQ(name(Cache::hot), "hot");
}

TEST(Quantiles, LieBetweenTheirNeighbours) {
    const std::vector<double> sorted = {1, 2, 4, 8};
    EXPECT_EQ(quantile(sorted, 0), 1);
    EXPECT_EQ(quantile(sorted, 1), 8);
    EXPECT_DOUBLE_EQ(quantile(sorted, 0.5), 3);
    EXPECT_DOUBLE_EQ(quantile(sorted, 0.9), 4 + 0.7 * 4);
    EXPECT_EQ(quantile(std::vector<double>{7}, 0.3), 7);
    const Statistics s = summarize({8, 1, 4, 2});
    EXPECT_EQ(s.samples, 4);
    EXPECT_DOUBLE_EQ(s.mean, 3.75);
    EXPECT_DOUBLE_EQ(s.median, 3);
    EXPECT_DOUBLE_EQ(s.deviation, std::sqrt((2.75 * 2.75 + 1.75 * 1.75 + 0.25 * 0.25 + 4.25 * 4.25) / 3));
    EXPECT_EQ(summarize({5}).deviation, 0);
    const Statistics a = summarize({10, 10, 10}), b = summarize({10, 10, 10}), c = summarize({10.5, 10.5});
    EXPECT_TRUE(overlap(a, b)) << "ends that touch";
    EXPECT_FALSE(overlap(a, c));
    EXPECT_FALSE(overlap(c, a));
}

TEST(Ratios, AreOfMediansWithinNineteenDrawsOfTwenty) {
    const std::vector<double> slow = {20, 22, 24, 26, 28}, fast = {9, 10, 10, 10, 11};
    const Ratio r = ratio_of(slow, fast);
    EXPECT_DOUBLE_EQ(r.ratio, 2.4);
    EXPECT_TRUE(r.low >= 20.0 / 11 && r.low < 2.3) << r.low;
    EXPECT_TRUE(r.high <= 28.0 / 9 && r.high > 2.5) << r.high;
    EXPECT_EQ(ratio_of(slow, fast).low, r.low) << "the same draws every time";
    const std::vector<double> none;
    EXPECT_ANY_THROW(ratio_of(none, fast));
    EXPECT_ANY_THROW(ratio_of(slow, none));
}

TEST(Rotations, AreOfSoManySetsAsMoveTheBytes) {
    EXPECT_EQ(Rotation::sets_for(1000, 1000, 2000), 2u);
    EXPECT_EQ(Rotation::sets_for(1000, 1000, 2001), 3u);
    EXPECT_EQ(Rotation::sets_for(1000, 0, 50), 50u) << "a call that moves nothing";
    EXPECT_EQ(Rotation::sets_for(0, 1, 1e9), 16384u) << "no more";
    EXPECT_EQ(Rotation::sets_for(24e9, 1000, 2000), 1u) << "as many as there is room for";
    EXPECT_EQ(Rotation::sets_for(12e9, 1000, 5000), 2u);
    EXPECT_EQ(Rotation::sets_for(30e9, 1000, 5000), 1u) << "one at least";
}

}  // namespace
}  // namespace weft::test
