// Buffers, copies, contexts, graphs on the host.
#include "weft/memory.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/context_list.h"
#include "weft/context.h"
#include "weft/error.h"
#include "weft/graph.h"
#include "weft/plans.h"

namespace weft {
namespace {

TEST(Memory, BuffersAreAlignedAndMove) {
    Buffer a(kEmulator, 100);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % 256, 0u);
    void* data = a.data();
    Buffer b = std::move(a);
    EXPECT_EQ(b.data(), data);
    EXPECT_EQ(b.size(), 100u);
    EXPECT_EQ(b.device(), kEmulator);
    EXPECT_EQ(Buffer(kCpu, 0).data(), nullptr);
}

TEST(Memory, CopiesWantTheSameDtypeAndNumberOfElements) {
    OwnedTensor a = allocate(DType::int32, {2, 3}, kCpu), b = allocate(DType::int32, {6}, kEmulator);
    for (int i = 0; i < 6; ++i) a.view.as<std::int32_t>()[i] = i;
    copy(b.view, a.view);
    EXPECT_EQ(b.view.as<std::int32_t>()[5], 5);
    EXPECT_THROW(copy(allocate(DType::int32, {5}, kCpu).view, a.view), Error);
    EXPECT_THROW(copy(allocate(DType::fp32, {6}, kCpu).view, a.view), Error);
    fill_bytes(b.view.data, kEmulator, 0xff, 24);
    EXPECT_EQ(b.view.as<std::int32_t>()[0], -1);
}

TEST(Memory, OfOneByteIsMemory) {
    Buffer one(kCpu, 1);
    ASSERT_NE(one.data(), nullptr);
    fill_bytes(one.data(), kCpu, 7, 1);
    char there = 0;
    copy_bytes(&there, kCpu, one.data(), kCpu, 1);
    EXPECT_EQ(there, 7);
}

TEST(Contexts, AreOneForEachDeviceAndStream) {
    int first = 0, second = 0;
    ContextList contexts;
    Context& one = contexts.of(kEmulator, Stream{&first});
    EXPECT_EQ(one.stream().handle, &first);
    Context& two = contexts.of(kEmulator, Stream{&second});
    EXPECT_EQ(two.stream().handle, &second);
    Context& host = contexts.of(kCpu, Stream{&first});
    EXPECT_EQ(host.device(), kCpu);
    EXPECT_EQ(&contexts.of(kEmulator, Stream{&first}), &one);
    EXPECT_EQ(&contexts.of(kEmulator, Stream{&second}), &two);
    EXPECT_EQ(&contexts.of(kCpu, Stream{&first}), &host);
    EXPECT_EQ(contexts.of(kEmulator, Stream{}).stream().handle, nullptr);
}

TEST(Contexts, MoveWithAllThatTheyKnow) {
    int handle = 0;
    DeviceInfo info = device_info(kEmulator);
    info.sms = 77;
    const auto told = [&] {
        Context context(kEmulator, Stream{&handle});
        context.set_info(info);
        context.avoid("cublaslt");
        context.set_tuning(true);
        context.plans().set("library", "m=1", "the third");
        context.scratch(100);
        context.slot<std::vector<int>>() = {3};
        return context;
    };
    const auto expect_all = [&](Context& context) {
        EXPECT_EQ(context.device(), kEmulator);
        EXPECT_EQ(context.stream().handle, &handle);
        EXPECT_EQ(context.info().sms, 77);
        EXPECT_TRUE(context.avoids("cublaslt"));
        EXPECT_TRUE(context.tuning());
        EXPECT_NE(context.plans().find("library", "m=1"), nullptr);
        EXPECT_EQ(context.take_scratch_asked(), 100u);
        EXPECT_EQ(context.slot<std::vector<int>>(), std::vector<int>{3});
    };
    Context made = told();
    Context constructed = std::move(made);
    expect_all(constructed);
    Context assigned;
    assigned = told();
    expect_all(assigned);
}

TEST(Contexts, ScratchGrowsAndStays) {
    Context context;
    void* small = context.scratch(100);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small) % 256, 0u);
    EXPECT_EQ(context.scratch(50), small);
    void* large = context.scratch(1 << 20);
    EXPECT_EQ(context.scratch(100), large);
    Context moved = std::move(context);
    EXPECT_EQ(moved.scratch(100), large);
}

// The whole of it is written: AddressSanitizer sees where it ends.
TEST(Contexts, ScratchHasEveryByteThatIsAskedFor) {
    Context context;
    for (const std::size_t bytes : std::initializer_list<std::size_t>{4096, 4097, 4098, 5000, 5001}) {
        std::memset(context.scratch(bytes), 1, bytes);
        static_cast<char*>(context.scratch(bytes - 1))[bytes - 1] = 2;
    }
}

// What a call has asked for is the most that it asked for at once, in whatever order.
TEST(Contexts, KnowTheMostScratchThatWasAskedFor) {
    Context context;
    context.scratch(300);
    context.scratch(100);
    EXPECT_EQ(context.take_scratch_asked(), 300u);
    context.scratch(100);
    EXPECT_EQ(context.take_scratch_asked(), 100u);
}

TEST(Contexts, SlotsBelongToTheirType) {
    struct Cache {
        int plans = 0;
    };
    Context a, b;
    a.slot<Cache>().plans = 3;
    EXPECT_EQ(a.slot<Cache>().plans, 3);
    EXPECT_EQ(b.slot<Cache>().plans, 0);
    Context c = std::move(a);
    EXPECT_EQ(c.slot<Cache>().plans, 3);
}

TEST(Contexts, LeaveOutByName) {
    Context context;
    EXPECT_FALSE(context.avoids("cublaslt"));
    context.avoid("cublaslt");
    EXPECT_TRUE(context.avoids("cublaslt"));
    EXPECT_FALSE(context.avoids("mma"));
}

TEST(Graphs, OnTheHostRepeatTheirWork) {
    Context context;
    int runs = 0;
    const Graph graph(context, [&] { ++runs; });
    EXPECT_EQ(runs, 0);
    graph.replay();
    graph.replay();
    EXPECT_EQ(runs, 2);
    EXPECT_GE(time_us(context, [&] { graph.replay(); }), 0);
    int asked_after = 0;
    time_us(context, [&] { graph.replay(); }, [&] { asked_after = runs; });
    EXPECT_EQ(asked_after, 4);
    EXPECT_FALSE(is_capturing(kCpu, {}));
    EXPECT_EQ(OwnedStream(kCpu).get().handle, nullptr);
}

// What is done during a measurement (a look at the card's clock) is in no time.
TEST(Graphs, OnTheHostTimeTheWorkAlone) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    auto asked = begin;
    Context context;
    const double us = time_us(
        context, [] {},
        [&] {
            asked = Clock::now();
            while (Clock::now() - asked < std::chrono::milliseconds(2)) {}
        });
    const std::chrono::duration<double, std::micro> until_then = asked - begin;
    EXPECT_LE(us, until_then.count());
}

TEST(Memory, WithoutADeviceSaysSo) {
    if (cuda_device_count() > 0) GTEST_SKIP() << "a GPU is here";
    EXPECT_THROW(Buffer(kCuda, 16), Error);
    EXPECT_THROW(Context{kCuda}, Error);
}

}  // namespace
}  // namespace weft
