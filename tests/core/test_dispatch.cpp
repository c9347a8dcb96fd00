// Dispatch: the order, the reasons, the log, errors that carry the case line.
#include <gmock/gmock.h>

#include "tests/core/probe.h"
#include "weft/case.h"
#include "weft/memory.h"

namespace weft::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const char* never(const Probe&, const DeviceInfo&) { return "it never does"; }
const char* only_wide(const Probe& op, const DeviceInfo&) {
    return op.x.dim(-1) < 8 ? "rows shorter than 8" : nullptr;
}
std::string config(const Probe& op, const DeviceInfo& d) {
    return "dim=" + std::to_string(op.x.dim(-1)) + " sms=" + std::to_string(d.sms);
}

int launches = 0;
void launch(const Probe& op, Context&) {
    ++launches;
    Oracle plain;
    reference(op, plain);
}
void fail(const Probe&, Context&) { throw Error(ErrorCode::cuda, "", "weight", "launch out of resources"); }

const RegisterReference<Probe> kReference{reference};
const RegisterImplementations<Probe> kList{
    DeviceType::cpu, {{"first", never, config, launch}, {"wide", only_wide, config, launch}}};
const RegisterImplementations<Probe> kEmulated{
    DeviceType::emulator, {{"narrow", only_wide, config, launch}, {"failing", never, config, fail}}};

struct Dispatch : testing::Test {
    Probe make(std::int64_t rows, std::int64_t dim, Device device = kCpu) {
        Probe op{};
        op.x = Tensor(memory.data(), DType::fp32, {rows, dim}, device);
        op.out = Tensor(memory.data() + 256, DType::fp32, {rows, dim}, device);
        return op;
    }
    ~Dispatch() override { set_log(nullptr); }
    std::vector<float> memory = std::vector<float>(512, 1.0f);
};

TEST_F(Dispatch, AsksInOrderAndEndsWithTheReference) {
    const OpEntry& entry = *find_op("probe");
    const Probe narrow = make(2, 4), wide = make(2, 8);
    const auto verdicts = explain(entry, &narrow, device_info(kCpu));
    ASSERT_EQ(verdicts.size(), 3u);
    EXPECT_EQ(verdicts[0].reason, "it never does");
    EXPECT_EQ(verdicts[1].reason, "rows shorter than 8");
    EXPECT_EQ(verdicts[2].implementation, "reference");
    EXPECT_EQ(verdicts[2].reason, "");
    Context context;
    EXPECT_EQ(detail::choose(entry, &wide, context)->name, "wide");
    EXPECT_EQ(detail::choose(entry, &narrow, context)->name, "reference");
}

TEST_F(Dispatch, AvoidsWhatTheContextLeavesOut) {
    const Probe wide = make(2, 8);
    Context context;
    context.avoid("wide");
    EXPECT_EQ(detail::choose(*find_op("probe"), &wide, context)->name, "reference");
}

// Whoever left it out looks for that first, and not for what it would say.
TEST_F(Dispatch, WhatIsLeftOutIsSaidOfOneThatDeclinesToo) {
    const Probe wide = make(2, 8);
    Context context;
    context.avoid("first");
    const auto verdicts = explain(*find_op("probe"), &wide, context);
    ASSERT_EQ(verdicts.size(), 3u);
    EXPECT_EQ(verdicts[0].reason, "left out by the context");
    EXPECT_EQ(verdicts[1].reason, "");
    EXPECT_EQ(verdicts[1].config, "dim=8 sms=1");
    context.avoid("wide");
    EXPECT_EQ(explain(*find_op("probe"), &wide, context)[1].config, "") << "what does not run has none";
}

TEST_F(Dispatch, SeesTheDeviceThatTheContextNames) {
    const Probe wide = make(2, 8);
    DeviceInfo info = *find_device("h100");
    EXPECT_THAT(explain(*find_op("probe"), &wide, info), testing::IsEmpty());  // no list for CUDA
    info.type = DeviceType::cpu;
    EXPECT_EQ(explain(*find_op("probe"), &wide, info)[1].config, "dim=8 sms=132");
}

TEST_F(Dispatch, RunsWhatItChose) {
    launches = 0;
    const Probe op = make(2, 8);
    run(op);
    EXPECT_EQ(launches, 1);
    EXPECT_EQ(op.out.as<float>()[0], 1.0f);
}

TEST_F(Dispatch, DoesNothingForEmptyCalls) {
    launches = 0;
    Probe op = make(0, 8);
    op.weight = Tensor(memory.data(), DType::fp32, {8});  // has elements, and is not written
    run(op);
    EXPECT_EQ(launches, 0);
}

TEST_F(Dispatch, ChecksBeforeItAsks) {
    Probe op = make(2, 8);
    op.out.dtype = DType::int8;
    EXPECT_THROW(run(op), Error);
}

TEST_F(Dispatch, WantsTheContextsDevice) {
    Context context(kCpu);
    try {
        run(make(2, 8, kEmulator), context);
        FAIL() << "it ran";
    } catch (const Error& e) {
        EXPECT_STREQ(e.what(), "probe.x: is on emulator:0, but the context is for cpu:0");
    }
    EXPECT_THROW(run(make(2, 8, {DeviceType::cpu, 1}), context), Error) << "another one of the kind";
}

TEST_F(Dispatch, GivesEveryReasonWhereAllDecline) {
    try {
        run(make(2, 4, kEmulator));
        FAIL() << "it ran";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::unsupported);
        EXPECT_THAT(e.what(),
                    HasSubstr("no implementation for emulator takes this call; narrow: rows shorter than 8; "
                              "failing: it never does"));
        EXPECT_THAT(e.what(), HasSubstr("probe x=fp32[2,4] out=fp32[2,4]"));
    }
}

TEST_F(Dispatch, ReportsFailuresWithTheCaseLine) {
    OpEntry entry = *find_op("probe");
    entry.implementations[0][0].decline =
        +[](const Probe&, const DeviceInfo&) -> const char* { return nullptr; };
    entry.implementations[0][0].launch = fail;
    const Probe op = make(2, 8);
    Context context;
    try {
        detail::run(entry, &op, context);
        FAIL() << "it ran";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::cuda);
        EXPECT_EQ(e.field(), "weight");
        EXPECT_STREQ(e.what(),
                     "probe.weight: first (probe x=fp32[2,8] out=fp32[2,8]): launch out of resources");
    }
}

TEST_F(Dispatch, LogsTheListUpToTheChoice) {
    std::vector<std::string> lines;
    set_log([&](const std::string& line) { lines.push_back(line); });
    run(make(2, 8));
    EXPECT_THAT(lines,
                ElementsAre("weft cpu probe x=fp32[2,8] out=fp32[2,8]\n  first: declined, it never does\n"
                            "  wide: chosen (dim=8 sms=1)"));
    set_log(nullptr);
    run(make(2, 8));
    EXPECT_EQ(lines.size(), 1u);
}

TEST_F(Dispatch, LogSaysWhatTheContextAvoids) {
    std::vector<std::string> lines;
    set_log([&](const std::string& line) { lines.push_back(line); });
    Context context;
    context.avoid("wide");
    run(make(2, 8), context);
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_THAT(lines[0], HasSubstr("wide: left out by the context"));
    EXPECT_THAT(lines[0], HasSubstr("reference: chosen"));
}

// As a process begins, which this one has done: the test is begun again in another.
TEST_F(Dispatch, IsLoggedWhereTheEnvironmentAsks) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto run_with = [this](const char* words) {
        setenv("WEFT_VERBOSE", words, 1);
        run(make(2, 8));
        std::exit(0);
    };
    EXPECT_EXIT(run_with("times,dispatch"), testing::ExitedWithCode(0),
                "weft cpu probe x=.*\n.*wide: chosen");
    EXPECT_EXIT(run_with("times"), testing::ExitedWithCode(0), "^$");
}

// The same in this process, where nothing else runs in it: what another reaches, scripts/mutants does not see.
TEST_F(Dispatch, IsLoggedFromTheFirstCallOn) {
    const bool alone = testing::UnitTest::GetInstance()->test_to_run_count() == 1;
    if (!alone || std::getenv("WEFT_VERBOSE") != nullptr) return;  // it was read at the first call
    setenv("WEFT_VERBOSE", "dispatch", 1);
    testing::internal::CaptureStderr();
    run(make(2, 8));
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("wide: chosen"));
    unsetenv("WEFT_VERBOSE");
    set_log(nullptr);
}

// Of a process that was not asked to, whether this is its first call or not.
TEST_F(Dispatch, NothingIsLoggedUnasked) {
    if (std::getenv("WEFT_VERBOSE") != nullptr) GTEST_SKIP() << "the environment asks";
    testing::internal::CaptureStderr();
    run(make(2, 8));
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}
TEST_F(Dispatch, NothingIsLoggedWhereTheEnvironmentAsksForOtherThings) {
    if (std::getenv("WEFT_VERBOSE") != nullptr) GTEST_SKIP() << "the environment asks";
    setenv("WEFT_VERBOSE", "times", 1);
    testing::internal::CaptureStderr();
    run(make(2, 8));
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    unsetenv("WEFT_VERBOSE");
}

TEST_F(Dispatch, PreparedCallsLaunchWithoutAsking) {
    launches = 0;
    const Probe op = make(2, 8);
    Context context;
    const Prepared<Probe> call(op, context);
    EXPECT_EQ(call.implementation(), "wide");
    call();
    call();
    EXPECT_EQ(launches, 2);
    const Prepared<Probe> nothing(make(0, 8), context);
    EXPECT_EQ(nothing.implementation(), "");
    nothing();
    EXPECT_EQ(launches, 2);
}

// A T4 has no bf16, and no kernel is compiled for it: the answer is the same for every op.
TEST_F(Dispatch, CardsBeforeTheFirstThatKernelsAreCompiledForAreDeclined) {
    const Probe wide = make(2, 8);
    DeviceInfo old = *find_device("t4"), first = *find_device("a100");
    old.type = first.type = DeviceType::emulator;
    const auto verdicts = explain(*find_op("probe"), &wide, old);
    ASSERT_EQ(verdicts.size(), 2u);
    for (const Verdict& v : verdicts) {
        EXPECT_THAT(v.reason, HasSubstr("compute capability 8.0"));
        EXPECT_EQ(v.config, "");
    }
    EXPECT_EQ(explain(*find_op("probe"), &wide, first)[0].reason, "");
}

// What the data sheets say: SMs, shared memory of a block and of an SM in KiB, L2 in MiB, TB/s, TFLOP/s dense in 16
// bits, fp8 and fp32.
TEST(KnownDevices, AreThoseOfTheirDataSheets) {
    const struct {
        const char* key;
        int arch, sms, block, sm, l2, cluster;
        double tbps, half, fp8, fp32;
    } kSheets[] = {
        {"h200", 90, 132, 227, 228, 60, 16, 4.35, 989, 1979, 67},
        {"h100", 90, 132, 227, 228, 50, 16, 3.08, 989, 1979, 67},
        {"a100", 80, 108, 163, 164, 40, 1, 1.94, 312, 312, 19.5},
        {"l40s", 89, 142, 99, 100, 96, 1, 0.86, 362, 733, 91.6},
        {"rtx4090", 89, 128, 99, 100, 72, 1, 1.0, 165, 330, 82.6},
        {"t4", 75, 40, 64, 64, 4, 1, 0.32, 65, 65, 8.1},
        {"b200", 100, 148, 227, 228, 126, 8, 8.0, 2250, 4500, 75},
        {"rtx5090", 120, 170, 99, 100, 96, 1, 1.79, 210, 419, 105},
    };
    EXPECT_EQ(device_names().size(), std::size(kSheets));
    for (const auto& s : kSheets) {
        SCOPED_TRACE(s.key);
        const DeviceInfo& d = *find_device(s.key);
        EXPECT_EQ(d.type, DeviceType::cuda);
        EXPECT_EQ(d.arch, s.arch);
        EXPECT_EQ(d.sms, s.sms);
        EXPECT_EQ(d.shared_per_block, s.block * 1024);
        EXPECT_EQ(d.shared_per_sm, s.sm * 1024);
        EXPECT_EQ(d.l2_bytes, std::int64_t{s.l2} << 20);
        EXPECT_EQ(d.max_cluster, s.cluster);
        EXPECT_EQ(std::max(d.copy_tbps, d.read_tbps), s.tbps);
        EXPECT_EQ(d.half_tflops, s.half);
        EXPECT_EQ(d.fp8_tflops, s.fp8);
        EXPECT_EQ(d.fp32_tflops, s.fp32);
        EXPECT_EQ(d.launch_us, 1.1) << "as probed on an H100 and an H200, and taken for the others";
    }
}

TEST(KnownDevices, TheEmulatorIsASmallHopper) {
    const DeviceInfo& d = device_info(kEmulator);
    EXPECT_EQ(d.name, "emulator");
    EXPECT_EQ(d.arch, 90);
    EXPECT_EQ(d.sms, 4);
    EXPECT_EQ(d.shared_per_block, find_device("h200")->shared_per_block);
    EXPECT_EQ(d.shared_per_sm, find_device("h200")->shared_per_sm);
    EXPECT_EQ(d.l2_bytes, 1 << 20);
    EXPECT_EQ(d.max_cluster, 8);
    EXPECT_EQ(device_info(kCpu).name, "cpu");
    EXPECT_EQ(device_info(kCpu).type, DeviceType::cpu);
}

TEST_F(Dispatch, KnownDevicesHaveRatesAndOrderedNames) {
    for (const std::string& name : device_names()) {
        const DeviceInfo* d = find_device(name);
        ASSERT_NE(d, nullptr);
        EXPECT_GT(d->copy_tbps, 0) << name;
        EXPECT_GT(d->half_tflops, 0) << name;
        EXPECT_GE(d->arch, 75) << name;
    }
    EXPECT_EQ(find_device("abacus"), nullptr);
}

}  // namespace
}  // namespace weft::test
