// Floors, rotations and measuring on the host as far as it can be tested there.
#include "bench/bench.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "bench/card_calls.h"
#include "bench/evidence.h"
#include "bench/floor.h"
#include "bench/text.h"
#include "tests/bench/plant.h"
#include "weft/memory.h"

namespace weft::test {
namespace {

using testing::HasSubstr;

TEST(Floors, NameWhatBinds) {
    DeviceInfo d = *find_device("h200");
    EXPECT_THAT(floor_text({.bytes = 1e9, .flops = 1e6}, d), HasSubstr("bound by memory"));
    EXPECT_THAT(floor_text({.bytes = 1e3, .flops = 1e12, .math = DType::bf16}, d),
                HasSubstr("bound by arithmetic"));
    EXPECT_THAT(floor_text({.bytes = 1, .flops = 1}, d), HasSubstr("bound by a kernel's launch"));
    EXPECT_EQ(floor_text({.bytes = 1e9}, device_info(kCpu)), "");
    EXPECT_EQ(rate_text({.bytes = 4e9, .flops = 1}, d, 1000), "4.00 TB/s");
    EXPECT_EQ(rate_text({.bytes = 1, .flops = 7e11, .math = DType::bf16}, d, 1000), "700 TFLOP/s");
}

TEST(Clock, TellsThrottlingFromThePowerLimit) {
    EXPECT_FALSE((ClockReading{1980, 0x1}).throttled());
    EXPECT_FALSE((ClockReading{1980, 0x4}).throttled());
    EXPECT_TRUE((ClockReading{1980, 0x4}).power_capped());
    for (const std::uint64_t reason : {0x8, 0x20, 0x40, 0x80})
        EXPECT_TRUE((ClockReading{1980, reason}).throttled());
    const GpuClock none(kCpu);
    EXPECT_FALSE(none.known());
    EXPECT_EQ(none.read().sm_mhz, 0);
}

TEST(Measuring, GivesEveryTimeOfEverySide) {
    const Case c = Case::parse("probe x=fp32[16,64] weight=fp32[64] sums=fp32");
    Bench bench(c, kCpu, quick());
    bench.add_weft();
    bench.add_card();
    const Measurement m = bench.run();
    ASSERT_EQ(m.results.size(), 5u);
    EXPECT_EQ(m.results[0].side, Side::weft);
    EXPECT_EQ(m.results[4].side, Side::noise);
    EXPECT_EQ(m.results[4].name, m.results[0].name) << "without a baseline weft is compared with itself";
    for (const Result& r : m.results) {
        EXPECT_TRUE(r.checked) << r.name << ": " << r.why;
        for (const Time time : kTimes) {
            for (const Cache cache : kCaches) {
                ASSERT_TRUE(r.at(time, cache)) << r.name;
                EXPECT_GE(r.at(time, cache)->samples.size(), 3u);
                EXPECT_GE(r.at(time, cache)->us.median, 0);
            }
        }
    }
    EXPECT_EQ(m.best(Time::device, Cache::cold), nullptr) << "a copy is no rival";
}

// Not so few that they have no median.
TEST(Measuring, WhatTakesLongGetsFewerSamples) {
    BenchOptions options = quick();
    options.sample.rounds = 9;
    options.sample.most_s = 1e-9;
    options.sample.eager = false;
    const Measurement m = measured(Case::parse("probe x=fp32[16,64]"), options);
    const auto& timing = m.weft()->at(Time::device, Cache::hot);
    ASSERT_TRUE(timing) << m.weft()->why;
    EXPECT_EQ(timing->us.samples, 4) << "three, and the one whose outputs are checked";
}

TEST(Measuring, WritesARowForEveryTime) {
    const Case c = Case::parse("probe x=fp32[16,64]");
    Bench bench(c, kCpu, quick());
    bench.add_weft();
    Callable slow;
    slow.name = "rival 1.0";
    slow.call = [&](std::size_t set) { right(*static_cast<const Probe*>(bench.operands(set).call())); };
    bench.add(slow);
    const Measurement m = bench.run();
    const auto rows = measurement_rows(c.line(), m, {"run", "env", "file/row"});
    ASSERT_EQ(rows.size(), 12u);
    EXPECT_EQ(rows[0]["side"], "weft");
    EXPECT_EQ(rows[0]["time"], "device");
    EXPECT_EQ(rows[0]["cache"], "cold");
    EXPECT_EQ(rows[0]["workload"], "file/row");
    const double median = m.results[0].at(Time::device, Cache::cold)->us.median;
    EXPECT_NEAR(rows[0]["us"]["median"].get<double>(), median, 1e-5 * median);  // six digits are stored
    EXPECT_FALSE(rows[0].contains("weft_speedup"));
    EXPECT_EQ(rows[5]["cache"], "hot");
    EXPECT_EQ(rows[5]["name"], "rival 1.0");
    EXPECT_LE(rows[5]["weft_speedup"]["low"], rows[5]["weft_speedup"]["high"]);
    EXPECT_EQ(rows[8]["side"], "noise");
    EXPECT_EQ(rows[8]["name"], "rival 1.0") << "the baseline against itself";
    Summary summary;
    summary.add("a case", m);
    EXPECT_THAT(summary.text(), HasSubstr("against rival 1.0"));
    EXPECT_THAT(measurement_text("a case", m, device_info(kCpu)), HasSubstr("rival 1.0"));
}

TEST(Measuring, CallsOverTheirInputsAreCheckedFromAFreshStart) {
    for (const char* line : {"probe x=fp32[16,64] out=@x factor=2", "amax x=bf16[16,64] amax=fp32[1]"}) {
        const Measurement m = measured(Case::parse(line));
        EXPECT_TRUE(m.weft()->checked) << m.weft()->why;
    }
}

TEST(Measuring, SampledCasesSayWhatWasCompared) {
    BenchOptions options = quick();
    options.reference = {.threads = 2, .operations = 1000, .elements = 1e6};
    const Case c = Case::parse("probe x=fp32[200,64]");
    const Measurement m = measured(c, options);
    EXPECT_TRUE(m.weft()->checked);
    EXPECT_THAT(m.checked_on, HasSubstr("of 200"));
    EXPECT_EQ(measurement_rows(c.line(), m, {})[0]["checked_on"], m.checked_on);
}

TEST(Rotations, HoldTheSameOperandsInOtherMemory) {
    const Case c = Case::parse("probe x=bf16[4,8]+3 weight=fp32[8] out=@x");
    Instance instance(c, kCpu, 1, Values::usual);
    Rotation rotation(instance, 3);
    ASSERT_EQ(rotation.sets(), 3u);
    const auto* a = static_cast<const Probe*>(instance.call());
    for (std::size_t set = 1; set < 3; ++set) {
        const auto* b = static_cast<const Probe*>(rotation[set].call());
        EXPECT_NE(a->x.data, b->x.data);
        EXPECT_EQ(b->x.data, b->out.data);
        EXPECT_EQ(std::memcmp(a->x.data, b->x.data, 64), 0);
        EXPECT_EQ(std::memcmp(a->weight.data, b->weight.data, 32), 0);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b->x.data) % 16, 6u);  // the offset is kept
    }
    EXPECT_EQ(Rotation::sets_for(8192, 512, 5120), 10u);
    EXPECT_EQ(Rotation::sets_for(8192, 512, 5121), 11u) << "not less than is asked for";
    EXPECT_EQ(Rotation::sets_for(8192, 512, 0), 1u);
}

// Copies and reads are of the right memory, on the host and as kernels.
TEST(Card, MovesWhatItSays) {
    std::vector<Device> devices = {kCpu};
    if (card_kernels(DeviceType::emulator).copy != nullptr) devices.push_back(kEmulator);
    for (const Device device : devices) {
        Context context(device);
        for (const Callable& callable : card_calls(context, 100'000, 250'000)) {
            for (const std::size_t set : {std::size_t{1}, std::size_t{0}}) {
                callable.call(set);
                EXPECT_EQ(callable.check(set), "") << callable.name;
            }
            if (callable.name == "card copy") {
                EXPECT_THAT(callable.check(1), HasSubstr("differs"));
                EXPECT_THAT(callable.check(2), HasSubstr("differs")) << "nobody copied there";
            }
        }
        Buffer out(device, std::size_t{4} << 20);
        const CardKernels& kernels = card_kernels(device.type);
        EXPECT_GE(kernels.multiply_add(static_cast<float*>(out.data()), 1, context), 32);
    }
    EXPECT_EQ(card_rates(kCpu).copy_tbps, 0) << "a host's rates say nothing of a GPU";
}

TEST(Card, RatesReplaceTheTables) {
    const DeviceInfo d = with_rates(*find_device("h200"), {4, 4.2, 900, 0, 60, 1.0});
    EXPECT_EQ(d.read_tbps, 4.2);
    EXPECT_EQ(d.fp8_tflops, 900) << "a card without fp8 runs it as 16 bits";
    EXPECT_EQ(with_rates(*find_device("h200"), {4, 4.2, 900, 1700, 60, 1.0}).fp8_tflops, 1700);
    EXPECT_NE(floor_text({.bytes = 4.2e9}, d).find("floor 1000.00 us"), std::string::npos);
}

TEST(Emulated, KernelsAreMeasuredForTests) {
    if (find_op("residual_add")->implementations[static_cast<int>(DeviceType::emulator)].empty())
        GTEST_SKIP();
    BenchOptions options = quick();
    options.sample = {.rounds = 1, .replay_us = 1, .seed = 1, .eager = false};
    const Case c = Case::parse("residual_add x=bf16[1024,64] residual=bf16[1024,64]");
    Bench bench(c, kEmulator, options);
    bench.add_weft();
    bench.add_card();
    EXPECT_GT(bench.sets(), 4u) << "three times an L2 of 1 MB";
    const Measurement m = bench.run();
    for (const Result& result : m.results) EXPECT_TRUE(result.checked) << result.name << ": " << result.why;
    EXPECT_FALSE(m.weft()->at(Time::eager, Cache::hot));
}

// What has a check of its own is asked about the set that was worked on: first, and after the cold and the hot samples.
TEST(Measuring, ChecksTheSetThatWasWorkedOn) {
    if (find_op("residual_add")->implementations[static_cast<int>(DeviceType::emulator)].empty())
        GTEST_SKIP();
    BenchOptions options = quick();
    options.sample = {.rounds = 1, .replay_us = 1, .seed = 1};
    for (const bool alone : {false, true}) {  // the samples of another are none of its own
        Bench bench(Case::parse("residual_add x=bf16[1024,64] residual=bf16[1024,64]"), kEmulator, options);
        if (!alone) bench.add_weft();
        std::vector<std::size_t> checked;
        Callable probe;
        probe.name = "probe";
        probe.call = [](std::size_t) {};
        probe.check = [&](std::size_t set) {
            checked.push_back(set);
            return std::string();
        };
        bench.add(probe);
        bench.run();
        EXPECT_THAT(checked, testing::ElementsAre(0u, bench.sets() - 1, 0u));
    }
}

}  // namespace
}  // namespace weft::test
