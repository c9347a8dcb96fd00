// Host benchmarks. The probe is rms_norm with a residual, a typical call: six tensors, two options, three
// rules.
#include "bench/host.h"

#include <array>

#include "ops/rms_norm/rms_norm.h"
#include "weft/graph.h"
#include "weft/memory.h"
#include "weft/op.h"

#if WEFT_HAS_BENCHMARK
#include <benchmark/benchmark.h>

namespace weft {
namespace {

// The probe's operands; on a GPU real ones.
struct Probe {
    explicit Probe(Device device) : memory(device, 1 << 20) {
        auto* at = static_cast<char*>(memory.data());
        const auto next = [&](std::initializer_list<std::int64_t> shape) {
            Tensor t(at, DType::bf16, shape, device);
            at += 128 << 10;
            return t;
        };
        op.x = next({16, 2048});
        op.weight = next({2048});
        op.residual = next({16, 2048});
        op.residual_out = next({16, 2048});
        op.out = next({16, 2048});
        fill_bytes(memory.data(), device, 0, memory.size());
    }
    Buffer memory;
    RmsNorm op;
};

// An entry with the emulator's list (the same policies as the GPU's), whose launches do nothing.
const OpEntry& stub() {
    static const OpEntry kStub = [] {
        OpEntry entry;
        entry.contract = &RmsNorm::contract;
        entry.implementations[0] =
            find_op("rms_norm")->implementations[static_cast<int>(DeviceType::emulator)];
        for (AnyImplementation& i : entry.implementations[0]) i.launch = +[](const RmsNorm&, Context&) {};
        return entry;
    }();
    return kStub;
}

void checks(benchmark::State& state) {
    const Probe probe(kCpu);
    for (auto _ : state) benchmark::DoNotOptimize(RmsNorm::contract().check(&probe.op));
}

void run_stub(benchmark::State& state) {
    const Probe probe(kCpu);
    Context context(kCpu);
    for (auto _ : state) detail::run(stub(), &probe.op, context);
}

void prepared_stub(benchmark::State& state) {
    const Probe probe(kCpu);
    Context context(kCpu);
    const AnyImplementation* chosen = detail::choose(stub(), &probe.op, context);
    for (auto _ : state) chosen->launch(&probe.op, context);
}

// Queues without waiting, but never so far ahead that the driver's queue is what is measured.
template <class Call>
void queue(benchmark::State& state, Context& context, Call call) {
    int queued = 0;
    for (auto _ : state) {
        call();
        if (++queued < 500) continue;
        queued = 0;
        state.PauseTiming();
        synchronize(context.device(), context.stream());
        state.ResumeTiming();
    }
    synchronize(context.device(), context.stream());
}

void run_cuda(benchmark::State& state) {
    const Probe probe(kCuda);
    const OwnedStream stream(kCuda);
    Context context(kCuda, stream.get());
    queue(state, context, [&] { run(probe.op, context); });
}

void prepared_cuda(benchmark::State& state) {
    const Probe probe(kCuda);
    const OwnedStream stream(kCuda);
    Context context(kCuda, stream.get());
    const Prepared<RmsNorm> call(probe.op, context);
    queue(state, context, [&] { call(); });
}

}  // namespace

bool run_host_benchmarks(bool json) {
    benchmark::RegisterBenchmark("checks", checks);
    benchmark::RegisterBenchmark("run, launch left out", run_stub);
    benchmark::RegisterBenchmark("prepared call, launch left out", prepared_stub);
    if (cuda_device_count() > 0) {
        benchmark::RegisterBenchmark("run, CUDA launch included", run_cuda);
        benchmark::RegisterBenchmark("prepared call, CUDA launch included", prepared_cuda);
    }
    std::array<char, 32> name = {"weft"}, format = {"--benchmark_format=json"};
    std::array<char*, 2> arguments = {name.data(), format.data()};
    int count = json ? 2 : 1;
    benchmark::Initialize(&count, arguments.data());
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return true;
}

}  // namespace weft

#else

namespace weft {

bool run_host_benchmarks(bool) { return false; }

}  // namespace weft

#endif
