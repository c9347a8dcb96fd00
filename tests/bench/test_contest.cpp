// How often what is measured is called, what is compared with itself, and which of an op's entries are baselines.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "bench/evidence.h"
#include "tests/bench/plant.h"

namespace weft::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Recorded = std::vector<std::pair<std::size_t, std::size_t>>;  // sets, calls

// What a callable that takes so long is asked to record.
Recorded recorded(double ms, double replay_us, const std::string& line = "probe x=fp32[16,64]") {
    BenchOptions options;
    options.sample = {.rounds = 1, .replay_us = replay_us, .seed = 1, .eager = false};
    Bench bench(Case::parse(line), kCpu, options);
    Recorded found;
    Callable callable;
    callable.name = "recorded";
    const auto call = [&bench, ms](std::size_t set) {
        right(*static_cast<const Probe*>(bench.operands(set).call()));
        std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
    };
    callable.call = call;
    callable.record = [&](std::size_t sets, std::size_t calls) {
        found.emplace_back(sets, calls);
        const std::size_t most = std::min<std::size_t>(calls, 100);  // far too many would sleep for minutes
        return [=] {
            for (std::size_t i = 0; i < most; ++i) call(i % sets);
        };
    };
    bench.add(callable);
    const Measurement m = bench.run();
    EXPECT_TRUE(m.results[0].checked) << m.results[0].why;
    return found;
}

TEST(Samples, AreOfAsManyCallsAsFillThem) {
    const Recorded found =
        recorded(4, 18'000);  // four and a half at most: a call takes no less than it sleeps
    ASSERT_EQ(found.size(), 4u) << "cold and hot, of it and of the noise";
    for (const auto& [sets, calls] : found) {
        EXPECT_EQ(sets, 1u);
        EXPECT_LE(calls, 4u);
    }
    for (const auto& [sets, calls] : recorded(2, 1)) EXPECT_EQ(calls, 1u) << "one at least";
    for (const auto& [sets, calls] : recorded(0, 40))
        EXPECT_LE(calls, 80u) << "none takes less than half of one";
}

// A busy machine makes some calls longer than they sleep, but hardly all of several attempts.
TEST(Samples, AreNotOfFarFewerCalls) {
    std::size_t most = 0;
    for (int attempt = 0; attempt < 10 && most <= 4; ++attempt) {
        for (const auto& [sets, calls] : recorded(1, 18'000)) most = std::max(most, calls);
    }
    EXPECT_GT(most, 4u) << "of 18 ms, of calls of a little more than one";
}

// Calls over their inputs cannot be repeated: their last check is of one call from a fresh start.
TEST(Samples, OfCallsOverTheirInputsEndWithOneFreshCall) {
    for (const char* line :
         {"probe x=fp32[16,64] weight=fp32[64] out=@x", "probe x=fp32[16,64] state=fp32[1]"}) {
        OpEntry entry;
        const Case c = planted(entry, [](const Probe& op, Context&) { right(op); }, line);
        BenchOptions options = quick();
        options.sample.eager = false;
        Bench bench(c, kCpu, options);
        Recorded found;
        Callable callable;
        callable.name = "recorded";
        callable.call = [&](std::size_t set) {
            right(*static_cast<const Probe*>(bench.operands(set).call()));
        };
        callable.record = [&](std::size_t sets, std::size_t calls) {
            found.emplace_back(sets, calls);
            return [&, sets, calls] {
                for (std::size_t i = 0; i < calls; ++i) callable.call(i % sets);
            };
        };
        bench.add(callable);
        const Measurement m = bench.run();
        EXPECT_TRUE(m.results[0].checked) << m.results[0].why;
        ASSERT_EQ(found.size(), 8u)
            << "samples, cold and hot, of it and of the noise, and a last call of each: " << line;
        for (std::size_t i = 4; i < found.size(); ++i)
            EXPECT_EQ(found[i], (std::pair<std::size_t, std::size_t>{1, 1}));
    }
}

TEST(Noise, IsOfWhatComputesAndIsRight) {
    Bench cards(Case::parse("probe x=fp32[16,64]"), kCpu, quick());
    cards.add_card();
    const Measurement copies = cards.run();
    EXPECT_EQ(copies.results.size(), 3u) << "copies are compared with nothing";
    OpEntry entry;
    const Measurement wrong = measured(planted(entry, [](const Probe&, Context&) {}));
    EXPECT_EQ(wrong.results.size(), 1u);
    EXPECT_EQ(wrong.results[0].side, Side::weft);
}

TEST(Noise, IsOfTheFirstBaselineThatIsRight) {
    Bench bench(Case::parse("probe x=fp32[16,64]"), kCpu, quick());
    bench.add_weft();
    for (const char* name : {"wrong", "first", "second"}) {
        Callable callable;
        callable.name = name;
        callable.call = [&bench, name](std::size_t set) {
            if (std::string_view(name) != "wrong")
                right(*static_cast<const Probe*>(bench.operands(set).call()));
        };
        bench.add(callable);
    }
    const Measurement m = bench.run();
    ASSERT_EQ(m.results.size(), 5u);
    EXPECT_EQ(m.results[4].side, Side::noise);
    EXPECT_EQ(m.results[4].name, "first");
    EXPECT_FALSE(m.results[1].checked);
}

// One of weft's own, two libraries of which one declines, and a second of its own.
TEST(Vendors, AreTheEntriesOfLibrariesThatAcceptAndAreNotChosen) {
    static std::map<std::string, int> tuned;
    tuned.clear();
    OpEntry entry = *find_op("probe");
    const auto listed = [](const char* name, const char* (*decline)(const Probe&, const DeviceInfo&)) {
        return AnyImplementation{name, decline,
                                 +[](const Probe&, const DeviceInfo&) { return std::string("so"); },
                                 +[](const Probe& op, Context& context) {
                                     ++tuned[context.tuning() ? "tuned" : "not tuned"];
                                     right(op);
                                 }};
    };
    const auto takes = +[](const Probe&, const DeviceInfo&) -> const char* { return nullptr; };
    const auto declines = +[](const Probe&, const DeviceInfo&) -> const char* { return "not here"; };
    BenchOptions options = quick();
    const auto names = [&](std::vector<AnyImplementation> list) {
        entry.implementations[0] = std::move(list);
        Case c(entry);
        c.tensors = Case::parse("probe x=fp32[16,64]").tensors;
        Bench bench(c, kCpu, options);
        bench.add_weft();
        bench.add_vendors();
        std::vector<std::string> found;
        for (const Result& r : bench.run().results) {
            if (r.side != Side::noise) found.push_back(r.name);
        }
        return found;
    };
    EXPECT_THAT(names({listed("own", takes), listed("cublaslt", takes), listed("cudnn", declines),
                       listed("other", takes)}),
                ElementsAre("own so", "cublaslt so"));
    EXPECT_THAT(names({listed("cudnn", takes), listed("cublaslt", takes)}),
                ElementsAre("cudnn so", "cublaslt so"))
        << "what is chosen is no baseline";
    EXPECT_EQ(tuned.count("not tuned"), 0u) << "of a library the best it has";
    EXPECT_GT(tuned["tuned"], 0);
    options.tuned = false;
    EXPECT_THAT(names({listed("cudnn", takes), listed("cublaslt", declines)}),
                ElementsAre("cudnn so", "cudnn so"))
        << "what a first call gets, beside the best";
    EXPECT_GT(tuned["not tuned"], 0);
    EXPECT_THAT(names({listed("own", takes), listed("cublaslt", takes)}),
                ElementsAre("own so", "cublaslt so"));
}

TEST(Measurements, HaveTheFloorOfTheRates) {
    BenchOptions options = quick();
    options.rates = CardRates{.copy_tbps = 1e-3,
                              .read_tbps = 1e-3,
                              .half_tflops = 1,
                              .fp8_tflops = 1,
                              .fp32_tflops = 1,
                              .launch_us = 1};
    const Measurement m = measured(Case::parse("probe x=fp32[16,64]"), options);
    EXPECT_NEAR(m.floor_us, m.work.bytes / 1e-3 * 1e-6, 1e-6);
    EXPECT_EQ(m.work.bytes, 2 * 16 * 64 * 4);
}

TEST(CardKernels, ReadEveryWord) {
    Context context(kCpu);
    std::vector<std::uint32_t> words(3000), sums(kReadSums);
    std::uint32_t expected = 0;
    for (std::size_t i = 0; i < words.size(); ++i)
        expected += words[i] = static_cast<std::uint32_t>(i * i * 7919 + 1);
    card_kernels(DeviceType::cpu).read(words.data(), 12'000, sums.data(), context);
    std::uint32_t sum = 0;
    for (const std::uint32_t part : sums) sum += part;
    EXPECT_EQ(sum, expected);
}

TEST(Clocks, AreCappedByOneReasonAlone) {
    for (const std::uint64_t reason : {0x1, 0x2, 0x8, 0x20, 0x40, 0x80})
        EXPECT_FALSE((ClockReading{1980, reason}).power_capped()) << reason;
}

TEST(Rows, CountFromTheFirstSampleOn) {
    Measurement m;
    Result& result = m.results.emplace_back();
    result.checked = true;
    Timing timing;
    timing.samples = {2, 2, 2};
    timing.us = summarize(timing.samples);
    timing.dropped = timing.power_capped = 1;
    result.at(Time::device, Cache::cold) = timing;
    const auto rows = measurement_rows("probe x=fp32[4,8]", m, {"run", "env", ""});
    EXPECT_EQ(rows[0].value("dropped", 0), 1);
    EXPECT_EQ(rows[0].value("power_capped", 0), 1);
}

TEST(Rows, NameTheCommitOfTheTree) {
    if (!std::filesystem::exists(WEFT_SOURCE_DIR "/.git")) GTEST_SKIP() << "sources without their history";
    unsetenv("WEFT_COMMIT");
    const nlohmann::json row = environment_row(kCpu, "weft bench");
    ASSERT_TRUE(row["commit"].is_string());
    EXPECT_THAT(row["commit"].get<std::string>(), testing::MatchesRegex("[0-9a-f]{40}"));
}

TEST(RatiosOfSamples, LieBetweenRatiosOfTheirMedians) {
    const std::vector<double> slow = {20, 22, 24, 26, 28}, fast = {10, 10, 10, 10, 10};
    const Ratio r = ratio_of(slow, fast);  // of five samples the median is one of them
    EXPECT_THAT((std::vector{2.0, 2.2, 2.4}), testing::Contains(testing::DoubleEq(r.low)));
    EXPECT_THAT((std::vector{2.4, 2.6, 2.8}), testing::Contains(testing::DoubleEq(r.high)));
}

}  // namespace
}  // namespace weft::test
