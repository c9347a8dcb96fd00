// Two GPUs in one process, played by a CUDA runtime of the host: what is selected when, and what is selected after.
#include <gmock/gmock.h>

#include "tests/core/fake_cuda.h"
#include "weft/graph.h"
#include "weft/memory.h"
#include "weft/op.h"

namespace weft::test {
namespace {

using testing::ElementsAre;

constexpr Device kSecond{DeviceType::cuda, 1};

struct Placed {
    static constexpr std::string_view kName = "placed";
    Tensor x{}, out{};
    bool scratch = false;
    static const Contract& contract() {
        static const Contract c = Describe<Placed>(std::string(kName), "out = x")
                                      .in("x", &Placed::x, "... dim", kFloat, "the rows")
                                      .out("out", &Placed::out, "... dim", kFloat, "the same")
                                      .in_place_of("x")
                                      .option("scratch", &Placed::scratch, "takes scratch memory")
                                      .tolerance("none")
                                      .source("nothing");
        return c;
    }
};

const char* never(const Placed&, const DeviceInfo&) { return nullptr; }
std::string config(const Placed&, const DeviceInfo&) { return ""; }
void launch(const Placed& op, Context& context) {
    if (op.scratch) context.scratch(64);
    FakeCuda::note("launch");
    if (op.x.dim(0) == 1) throw Error(ErrorCode::unsupported, "placed", "x", "one row is too few");
}

const RegisterImplementations<Placed> kList{DeviceType::cuda, {{"counted", never, config, launch}}};

struct Devices : testing::Test {
    FakeCuda cuda;
    Buffer memory{kSecond, 256};
    Placed op = [this] {
        Placed made{};
        made.x = Tensor(memory.data(), DType::fp32, {2, 8}, kSecond);
        made.out = made.x;
        FakeCuda::calls().clear();
        return made;
    }();
    void expect(const std::vector<std::string>& calls) {
        EXPECT_EQ(FakeCuda::calls(), calls);
        EXPECT_EQ(FakeCuda::state().selected, 0) << "the caller's device is no longer the selected one";
        FakeCuda::calls().clear();
    }
};

// What is there counts, and what is known of such a card: its rates.
TEST_F(Devices, TellOfThemselves) {
    const DeviceInfo& info = device_info(kSecond);
    EXPECT_EQ(info.name, "Fake H200 1");
    EXPECT_EQ(info.type, DeviceType::cuda);
    EXPECT_EQ(info.arch, 90);
    EXPECT_EQ(info.sms, 131);
    EXPECT_EQ(info.shared_per_block, 226 * 1024);
    EXPECT_EQ(info.shared_per_sm, 229 * 1024);
    EXPECT_EQ(info.l2_bytes, 61 << 20);
    EXPECT_EQ(info.max_cluster, 16);
    EXPECT_EQ(info.copy_tbps, find_device("h200")->copy_tbps);
    EXPECT_EQ(info.fp8_tflops, find_device("h200")->fp8_tflops);
    EXPECT_EQ(&info, &device_info(kSecond)) << "asked once";
}

TEST_F(Devices, MemoryIsMadeOnItsDevice) {
    Buffer other(kSecond, 256);
    expect({"allocate on 1"});
    fill_bytes(other.data(), kSecond, 0, 256);
    copy_bytes(other.data(), kSecond, memory.data(), kCpu, 256);
    copy_bytes(memory.data(), kCpu, other.data(), kSecond, 256);
    synchronize(kSecond);
    expect({"fill on 1", "synchronize on 1", "copy on 1", "copy on 1", "synchronize on 1"});
}

TEST_F(Devices, StreamsGraphsAndTimesBelongToTheirDevice) {
    const OwnedStream stream(kSecond);
    Context context(kSecond, stream.get());
    const Graph graph(context, [&] { run(op, context); });
    graph.replay();
    time_us(context, [] {});
    expect({"make_stream on 1", "capture on 1", "launch on 1", "launch_graph on 1", "time on 1"});
}

TEST_F(Devices, LaunchesSelectTheTensorsDevice) {
    Context context(kSecond);
    run(op, context);
    const Prepared<Placed> prepared(op, context);
    prepared();
    expect({"launch on 1", "launch on 1"});
}

TEST_F(Devices, ScratchIsTheDevicesAndOutlivesTheCall) {
    op.scratch = true;
    run(op);
    expect({"allocate on 1", "launch on 1", "synchronize on 1", "release on 0"});
}

TEST_F(Devices, ScratchOutlivesACallThatFails) {
    op.scratch = true;
    op.x = op.out = Tensor(memory.data(), DType::fp32, {1, 8}, kSecond);
    EXPECT_THROW(run(op), Error);
    expect({"allocate on 1", "launch on 1", "synchronize on 1", "release on 0"});
}

TEST_F(Devices, ScratchIsNotLetGoOfWhileWorkMayUseIt) {
    Context context(kSecond);
    context.scratch(64);
    context.finish();
    context.scratch(128);
    expect({"allocate on 1", "synchronize on 1", "synchronize on 1", "release on 0", "allocate on 1"});
    Context unused(kSecond);
    unused.finish();
    expect({});
}

// A graph would keep the memory that was there before.
TEST_F(Devices, ScratchDoesNotGrowInACapture) {
    Context context(kSecond);
    FakeCuda::state().capturing = true;
    EXPECT_THROW(context.scratch(64), Error) << "there is none";
    FakeCuda::state().capturing = false;
    void* const there = context.scratch(64);
    FakeCuda::state().capturing = true;
    EXPECT_EQ(context.scratch(64), there);
    EXPECT_THROW(context.scratch(65), Error) << "there is less";
    FakeCuda::state().capturing = false;
    EXPECT_EQ(context.scratch(64), there);
}

TEST_F(Devices, WithoutScratchACallIsNotWaitedFor) {
    run(op);
    expect({"launch on 1"});
}

TEST_F(Devices, WhatIsSelectedAlreadyStays) {
    cuda::api().select(1);
    run(op);
    EXPECT_EQ(FakeCuda::state().selected, 1);
    EXPECT_THAT(FakeCuda::calls(), ElementsAre("launch on 1"));
}

TEST_F(Devices, AFailureRestoresTheDeviceToo) {
    Context context(kSecond);
    EXPECT_THROW(Graph(context, [] { throw Error(ErrorCode::internal, "", "", "on purpose"); }), Error);
    EXPECT_EQ(FakeCuda::state().selected, 0);
}

}  // namespace
}  // namespace weft::test
