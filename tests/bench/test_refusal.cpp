// A wrong kernel can't get a time: one planted for each way of being wrong.
#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "bench/evidence.h"
#include "bench/text.h"
#include "tests/bench/plant.h"

namespace weft::test {
namespace {

using testing::HasSubstr;

void expect_refused(const Case& c, const Measurement& m, const char* why) {
    const Result& r = *m.weft();
    EXPECT_FALSE(r.checked);
    EXPECT_THAT(r.why, HasSubstr(why));
    for (const Time time : kTimes) {
        for (const Cache cache : kCaches) EXPECT_FALSE(r.at(time, cache));
    }
    for (const auto& row : measurement_rows(c.line(), m, {})) {
        if (row["side"] != "weft") continue;
        EXPECT_TRUE(row["us"].is_null());
        EXPECT_FALSE(row["checked"]);
        EXPECT_THAT(row["why"].get<std::string>(), HasSubstr(why));
    }
}

double load(const Tensor& t, std::int64_t i) { return load_element(t.dtype, t.data, i); }

TEST(Refusal, RightOnAverageWrongInOneElement) {
    OpEntry entry;
    const Case c = planted(entry, [](const Probe& op, Context&) {
        right(op);
        store_element(op.out.dtype, op.out.data, 515, load(op.out, 515) * 1.001 + 1e-3);
        store_element(op.out.dtype, op.out.data, 514, load(op.out, 514) - 1e-3);
    });
    expect_refused(c, measured(c), "out[8,2]: got ");
}

TEST(Refusal, NothingWritten) {
    OpEntry entry;
    const Case c = planted(entry, [](const Probe&, Context&) {});
    expect_refused(c, measured(c), "out[0,0]: got nan");
}

TEST(Refusal, RightInTheFirstRunWrongInTheLast) {
    OpEntry entry;
    int calls = 0;
    const Case c = planted(entry, [&calls](const Probe& op, Context&) {
        right(op);
        if (++calls > 5) store_element(op.out.dtype, op.out.data, 7, 1e6);
    });
    expect_refused(c, measured(c), "after timing: out[0,7]: got 1000000");
}

TEST(Refusal, LeavesTheFirstRunsResultInPlace) {
    OpEntry entry;
    int calls = 0;
    const Case c = planted(entry, [&calls](const Probe& op, Context&) {
        if (++calls <= 5) right(op);
    });
    expect_refused(c, measured(c), "after timing: out[0,0]: got nan");
}

TEST(Refusal, OtherBitsFromTheSameInputs) {
    OpEntry entry;
    int calls = 0;
    const Case c = planted(entry, [&calls](const Probe& op, Context&) {
        right(op);
        const double nudged =
            std::nextafter(static_cast<float>(load(op.out, 3)), ++calls > 1 ? 1e30f : -1e30f);
        store_element(op.out.dtype, op.out.data, 3, nudged);
    });
    expect_refused(c, measured(c), "after timing: two calls gave different bits");
}

TEST(Refusal, ChangesAnInput) {
    OpEntry entry;
    const Case c = planted(entry, [](const Probe& op, Context&) {
        right(op);
        store_element(op.weight.dtype, op.weight.data, 5, 0.5);
    });
    expect_refused(c, measured(c), "weight: byte 20 of its memory is not the op's to write, and changed");
}

// The result of the first call written again: right to the bit, and faster than its operands move.
TEST(Refusal, ReadsFewerBytesThanItShould) {
    using namespace std::chrono_literals;
    OpEntry entry;
    BenchOptions options = quick();
    options.rates = CardRates{.copy_tbps = 1e-5,
                              .read_tbps = 1e-5,
                              .half_tflops = 1,
                              .fp8_tflops = 1,
                              .fp32_tflops = 1,
                              .launch_us = 1};  // the case takes at least 845 us
    std::vector<float> kept;
    const Case cheat = planted(entry, [&kept](const Probe& op, Context&) {
        if (kept.empty()) {
            right(op);
            kept.assign(op.out.as<float>(), op.out.as<float>() + op.out.numel());
        }
        std::copy(kept.begin(), kept.end(), op.out.as<float>());
    });
    expect_refused(cheat, measured(cheat, options), "is below the floor of 844.80 us");

    OpEntry another;
    const Case honest = planted(another, [](const Probe& op, Context&) {
        right(op);
        std::this_thread::sleep_for(900us);
    });
    const Measurement m = measured(honest, options);
    EXPECT_TRUE(m.weft()->checked) << m.weft()->why;
}

TEST(Refusal, ThrowsInTheMiddle) {
    OpEntry entry;
    int calls = 0;
    const Case c = planted(entry, [&calls](const Probe& op, Context&) {
        if (++calls == 3) throw std::runtime_error("out of luck");
        right(op);
    });
    expect_refused(c, measured(c), "failed: out of luck");
}

// A library that refuses the first launch of what it took: its rows are those of the implementation that ran.
struct Refuses {
    bool refused = false;
};
TEST(Refusal, WhatALibraryRefusesHasTheNameOfWhatTookIt) {
    OpEntry entry;
    const Case c = planted(entry, [](const Probe&, Context& context) {
        context.slot<Refuses>().refused = true;
        throw Refused();
    });
    entry.implementations[0][0].prepare = +[](const Probe&, Context& context) -> Readiness {
        return {context.slot<Refuses>().refused ? "its library refused the call" : nullptr};
    };
    entry.implementations[0].push_back(
        {"own", +[](const Probe&, const DeviceInfo&) -> const char* { return nullptr; },
         +[](const Probe&, const DeviceInfo&) { return std::string("slow"); },
         +[](const Probe& op, Context&) { right(op); }});
    const Measurement m = measured(c);
    EXPECT_TRUE(m.weft()->checked) << m.weft()->why;
    EXPECT_EQ(m.weft()->name, "own slow");
}

TEST(Refusal, AWrongBaselineSaysSoAndTheOthersAreTimed) {
    const Case c = Case::parse("probe x=fp32[16,64]");
    Bench bench(c, kCpu, quick());
    bench.add_weft();
    Callable wrong;
    wrong.name = "rival 1.0";
    wrong.call = [&](std::size_t set) {
        const auto& op = *static_cast<const Probe*>(bench.operands(set).call());
        right(op);
        store_element(op.out.dtype, op.out.data, 0, 42);
    };
    bench.add(wrong);
    const Measurement m = bench.run();
    EXPECT_TRUE(m.weft()->checked);
    EXPECT_FALSE(m.results[1].checked);
    EXPECT_THAT(m.results[1].why, HasSubstr("out[0,0]: got 42"));
    EXPECT_EQ(m.best(Time::device, Cache::cold), nullptr);
    EXPECT_EQ(m.results.back().side, Side::noise);
    EXPECT_EQ(m.results.back().name, m.weft()->name) << "a wrong baseline gives no noise";
}

// A baseline in front of the probe whose first element is off, where a framework's chain may give `allowed` there.
Measurement with_chain(float allowed, const std::function<void(const Probe&)>& spoil,
                       Side side = Side::baseline) {
    const Case c = Case::parse("probe x=fp32[16,64] weight=fp32[64]");
    Bench bench(c, kCpu, quick());
    Callable callable;
    callable.name = "rival 1.0";
    callable.side = side;
    const auto of = [&](std::size_t set) -> const Probe& {
        return *static_cast<const Probe*>(bench.operands(set).call());
    };
    callable.call = [&](std::size_t set) {
        right(of(set));
        spoil(of(set));
    };
    bench.add(callable);
    bench.allow_chain([&](std::size_t set) -> std::string {
        return of(set).out.as<float>()[0] == allowed ? "" : "out of the chain's bounds";
    });
    return bench.run();
}

TEST(Refusal, ABaselineMayRoundInBetweenAndIsMarked) {
    const Measurement m = with_chain(42, [](const Probe& op) { op.out.as<float>()[0] = 42; });
    EXPECT_TRUE(m.results[0].checked) << m.results[0].why;
    EXPECT_TRUE(m.results[0].rounds_between);
    ASSERT_NE(m.best(Time::device, Cache::cold), nullptr) << "it is a rival";
    for (const auto& row : measurement_rows("probe", m, {"run", "env", ""}))
        EXPECT_EQ(row["rounds_between"], true);
    EXPECT_THAT(measurement_text("probe", m, device_info(kCpu)), HasSubstr("(rounds in between)"));
    const Measurement plain = with_chain(42, [](const Probe&) {});
    EXPECT_TRUE(plain.results[0].checked && !plain.results[0].rounds_between)
        << "right by the reference: not marked";
}

TEST(Refusal, WhatTheChainCannotGiveIsWrong) {
    const Measurement m = with_chain(42, [](const Probe& op) { op.out.as<float>()[0] = 43; });
    EXPECT_FALSE(m.results[0].checked || m.results[0].rounds_between);
    EXPECT_THAT(m.results[0].why, HasSubstr("got 43"));
    EXPECT_THAT(m.results[0].why, HasSubstr("rounding between steps: out of the chain's bounds"));
}

TEST(Refusal, TheChainExcusesNoOtherMemory) {
    const Measurement m = with_chain(42, [](const Probe& op) {
        op.out.as<float>()[0] = 42;
        const_cast<float*>(op.weight.as<float>())[3] = 0;
    });
    EXPECT_FALSE(m.results[0].checked);
    EXPECT_THAT(m.results[0].why, HasSubstr("weight: byte 12 of its memory is not the op's to write"));
}

TEST(Refusal, TheChainExcusesNotWeft) {
    const Measurement m = with_chain(42, [](const Probe& op) { op.out.as<float>()[0] = 42; }, Side::weft);
    EXPECT_FALSE(m.results[0].checked);
}

// What runs on a stream of its own has no device time, and is checked by the host's.
TEST(Foreign, StreamsOfTheirOwnHaveEagerTimesOnly) {
    const Case c = Case::parse("probe x=fp32[16,64]");
    Bench bench(c, kCpu, quick());
    bench.add_weft();
    Callable foreign;
    foreign.name = "rival 1.0";
    foreign.recordable = false;
    int calls = 0, wrong_after = 1 << 30;
    foreign.call = [&](std::size_t set) {
        const auto& op = *static_cast<const Probe*>(bench.operands(set).call());
        right(op);
        if (++calls > wrong_after) store_element(op.out.dtype, op.out.data, 1, 1e6);
    };
    bench.add(foreign);
    const Measurement m = bench.run();
    EXPECT_TRUE(m.results[1].checked) << m.results[1].why;
    EXPECT_FALSE(m.results[1].at(Time::device, Cache::cold));
    EXPECT_TRUE(m.results[1].at(Time::eager, Cache::cold));
    wrong_after = calls + 3;
    EXPECT_THAT(bench.run().results[1].why, HasSubstr("after timing: out[0,1]: got 1000000"));
}

// Callees that return memory of their own deliver it, and a graph of theirs is replayed as one of weft's.
TEST(Foreign, ResultsAreDeliveredAndGraphsReplayed) {
    const Case c = Case::parse("probe x=fp32[16,64]");
    Bench bench(c, kCpu, quick());
    bench.add_weft();
    Callable foreign;
    int replays = 0;
    std::vector<std::vector<float>> own(bench.sets());
    foreign.name = "rival 1.0";
    foreign.call = [&](std::size_t set) {
        const auto& op = *static_cast<const Probe*>(bench.operands(set).call());
        right(op);
        own[set].assign(op.out.as<float>(), op.out.as<float>() + op.out.numel());
        std::fill_n(op.out.as<float>(), op.out.numel(), -1.0f);
    };
    foreign.deliver = [&](std::size_t set) {
        const auto& op = *static_cast<const Probe*>(bench.operands(set).call());
        std::copy(own[set].begin(), own[set].end(), op.out.as<float>());
    };
    foreign.record = [&](std::size_t sets, std::size_t calls) {
        return [&, sets, calls] {
            ++replays;
            for (std::size_t i = 0; i < calls; ++i) foreign.call(i % sets);
        };
    };
    bench.add(foreign);
    const Measurement m = bench.run();
    EXPECT_TRUE(m.results[1].checked) << m.results[1].why;
    EXPECT_GE(replays, 8);
}

}  // namespace
}  // namespace weft::test
