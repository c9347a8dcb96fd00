// What samples make of the card's clock. The card is played: its runtime, and the library that tells its clock.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "bench/sampler.h"
#include "tests/core/fake_cuda.h"

namespace weft::test {
namespace {

using testing::Each;
using testing::SizeIs;

constexpr Device kSecond{DeviceType::cuda, 1};
constexpr unsigned long long kIdle = 0x1, kPowerCap = 0x4, kHot = 0x20;

struct Sampling : testing::Test {
    void SetUp() override {
        const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
        if (dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_NOLOAD) != nullptr)
            GTEST_SKIP() << "the driver's own library is in use";
        library = dlopen((here / "libnvml_of_tests.so").c_str(), RTLD_NOW | RTLD_LOCAL);
        ASSERT_NE(library, nullptr) << dlerror();
        symbol<void()>("weft_test_clock_forgets")();
    }
    ~Sampling() override {
        if (library != nullptr) dlclose(library);
    }
    template <class F>
    F* symbol(const char* name) const {
        return reinterpret_cast<F*>(dlsym(library, name));
    }
    void says(unsigned mhz, unsigned long long reasons) const {
        symbol<void(unsigned, unsigned long long)>("weft_test_clock_says")(mhz, reasons);
    }
    // Four samples of a call, cold and hot: of graphs, or of calls from the host.
    Result sampled(Time time = Time::device) const {
        Context context(kSecond);
        Sampler sampler(context, 1, {.rounds = 4, .replay_us = 1, .seed = 1, .eager = false});
        Callable callable;
        callable.name = "nothing";
        callable.recordable = time == Time::device;
        callable.call = [](std::size_t) {};
        Result result;
        sampler.add(callable, result);
        sampler.run();
        return result;
    }

    const FakeCuda cuda;
    void* library = nullptr;
};

TEST_F(Sampling, WhatIsTakenOfAHotCardIsLeftOutAndTakenAgain) {
    for (int i = 0; i < 3; ++i) says(900, kHot);
    says(1980, kIdle);
    const Result result = sampled();
    int dropped = 0;
    for (const Cache cache : kCaches) {
        const auto& timing = result.at(Time::device, cache);
        ASSERT_TRUE(timing);
        EXPECT_THAT(timing->samples, SizeIs(4));
        EXPECT_THAT(timing->sm_mhz, testing::AllOf(SizeIs(4), Each(1980)))
            << "of what is left out there is no clock";
        EXPECT_EQ(timing->power_capped, 0);
        dropped += timing->dropped;
    }
    EXPECT_EQ(dropped, 3);
}

TEST_F(Sampling, OfACardThatStaysHotThereIsNone) {
    says(900, kHot);
    for (const Time time : kTimes) {
        const Result result = sampled(time);
        for (const Cache cache : kCaches) {
            EXPECT_THAT(result.at(time, cache)->samples, SizeIs(0)) << name(time);
            EXPECT_EQ(result.at(time, cache)->dropped, 8) << "as many again, and no more";
        }
    }
}

TEST_F(Sampling, AClockThatThePowerLimitHoldsIsCounted) {
    says(1500, kPowerCap);
    const Result result = sampled();
    for (const Cache cache : kCaches) {
        const auto& timing = result.at(Time::device, cache);
        EXPECT_THAT(timing->samples, SizeIs(4));
        EXPECT_EQ(timing->power_capped, 4);
        EXPECT_EQ(timing->dropped, 0);
        EXPECT_THAT(timing->sm_mhz, Each(1500));
    }
}

// How many calls fill a sample is told by what some of them take until the device is done, not until they are queued.
TEST_F(Sampling, CallsFromTheHostAreWaitedForBeforeTheyAreCounted) {
    Context context(kSecond);
    Sampler sampler(context, 1, {.rounds = 1, .replay_us = 1, .seed = 1, .eager = true});
    Callable callable;
    callable.name = "noted";
    callable.recordable = false;
    callable.call = [](std::size_t) { FakeCuda::note("call"); };
    Result result;
    sampler.add(callable, result);
    EXPECT_THAT(FakeCuda::calls(),
                testing::ElementsAre("call on 0", "call on 0", "call on 0", "synchronize on 1"));
}

TEST(Sets, LongCallsGoRoundFewer) {
    EXPECT_EQ(Sampler::sets_of(3, 16384), 16384u);
    EXPECT_EQ(Sampler::sets_of(10'000, 1500), 50u) << "half a second";
    EXPECT_EQ(Sampler::sets_of(2e6, 1500), 1u);
}

TEST_F(Sampling, WithoutTheClockNothingIsLeftOut) {
    const Result result = sampled();
    for (const Cache cache : kCaches) {
        EXPECT_THAT(result.at(Time::device, cache)->samples, SizeIs(4));
        EXPECT_THAT(result.at(Time::device, cache)->sm_mhz, SizeIs(0));
    }
}

}  // namespace
}  // namespace weft::test
