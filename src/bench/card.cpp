// Measuring the card's rates.
#include "bench/card.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "core/cuda_api.h"
#include "weft/case.h"
#include "weft/graph.h"
#include "weft/memory.h"

namespace weft {
namespace {

constexpr std::int64_t kBytes = std::int64_t{1} << 30;  // far beyond any L2

// The host's own, so that what uses them is tested without a GPU.
const bool kRegistered = [] {
    card_kernels(DeviceType::cpu) = {[](Context&) {},
                                     [](void* to, const void* from, std::int64_t bytes, Context&) {
                                         std::memcpy(to, from, static_cast<std::size_t>(bytes));
                                     },
                                     [](const void* from, std::int64_t bytes, std::uint32_t* sums, Context&) {
                                         for (std::int64_t i = 0; i < bytes / 4; ++i) {
                                             std::uint32_t word = 0;
                                             std::memcpy(&word, static_cast<const char*>(from) + i * 4, 4);
                                             sums[i % kReadSums] += word;
                                         }
                                     },
                                     [](float* out, int rounds, Context&) {
                                         for (int i = 0; i < 16 * rounds; ++i) *out = *out * 0.5f + 1;
                                         return 2.0 * 16 * rounds;
                                     }};
    return true;
}();

// Microseconds of the fastest of several graphs of `calls` calls, a call.
double fastest_us(Context& context, int calls, const std::function<void()>& queue) {
    queue();
    const Graph graph(context, [&] {
        for (int i = 0; i < calls; ++i) queue();
    });
    graph.replay();
    double best = 1e300;
    for (int i = 0; i < 8; ++i) best = std::min(best, time_us(context, [&] { graph.replay(); }) / calls);
    return best;
}

// TFLOP/s of the fastest of three sizes of a matrix product of zeros; 0 where this card has none of the
// dtype.
double matrix_tflops(Context& context, const char* dtype, const char* scales) {
    double best = 0;
    for (const int n : {4096, 8192, 16384}) {
        const std::string size = "[" + std::to_string(n) + "," + std::to_string(n) + "]";
        const Case c = Case::parse(std::string("gemm a=") + dtype + size + " b=" + dtype + size + scales +
                                   " out=bf16" + size);
        std::vector<Buffer> buffers;
        std::vector<void*> bases;
        for (const TensorSpec& spec : c.tensors) {
            buffers.emplace_back(context.device(),
                                 spec.present ? static_cast<std::size_t>(bytes(spec.dtype, spec.span())) : 0);
            fill_bytes(buffers.back().data(), context.device(), 0, buffers.back().size());
            bases.push_back(buffers.back().data());
        }
        std::vector<std::max_align_t> call(c.contract().size() / sizeof(std::max_align_t) + 1);
        c.bind(call.data(), bases, context.device());
        try {
            const double us = fastest_us(context, 2, [&] { detail::run(c.op(), call.data(), context); });
            best = std::max(best, c.contract().work(call.data()).flops / us * 1e-6);
        } catch (const Error& e) {
            if (e.code() == ErrorCode::cuda) throw;
            return best;  // no implementation takes it here
        }
    }
    return best;
}

CardRates measure(Device device) {
    const cuda::DeviceGuard guard(device);  // these kernels are launched as they are, not by an op
    const OwnedStream stream(device);
    Context context(device, stream.get());
    context.set_tuning(true);
    const CardKernels& kernels = card_kernels(device.type);
    CardRates rates;
    {
        const Buffer memory(device, kBytes), sums(device, kReadSums * 4);
        fill_bytes(memory.data(), device, 0, kBytes);
        auto* half = static_cast<char*>(memory.data()) + kBytes / 2;
        rates.copy_tbps =
            kBytes / fastest_us(context, 4, [&] { kernels.copy(half, memory.data(), kBytes / 2, context); }) *
            1e-6;
        rates.read_tbps = kBytes /
                          fastest_us(context, 4,
                                     [&] {
                                         kernels.read(memory.data(), kBytes,
                                                      static_cast<std::uint32_t*>(sums.data()), context);
                                     }) *
                          1e-6;
        double operations = 0;
        const double us = fastest_us(context, 4, [&] {
            operations = kernels.multiply_add(static_cast<float*>(memory.data()), 4096, context);
        });
        rates.fp32_tflops = operations / us * 1e-6;
        rates.launch_us = fastest_us(context, 500, [&] { kernels.nothing(context); });
    }
    rates.half_tflops = matrix_tflops(context, "bf16", "");
    rates.fp8_tflops = matrix_tflops(context, "fp8_e4m3", " a_scale=fp32[1] b_scale=fp32[1]");
    return rates;
}

}  // namespace

const CardRates& card_rates(Device device) {
    static std::mutex mutex;
    static std::map<std::pair<DeviceType, int>, CardRates> known;
    const std::scoped_lock lock(mutex);
    const auto key = std::pair(device.type, device.index);
    auto it = known.find(key);
    if (it == known.end()) {
        it = known.emplace(key, device.type == DeviceType::cuda ? measure(device) : CardRates{}).first;
    }
    return it->second;
}

DeviceInfo with_rates(const DeviceInfo& device, const CardRates& rates) {
    DeviceInfo measured = device;
    measured.copy_tbps = rates.copy_tbps;
    measured.read_tbps = rates.read_tbps;
    measured.half_tflops = rates.half_tflops;
    measured.fp8_tflops = rates.fp8_tflops > 0 ? rates.fp8_tflops : rates.half_tflops;
    measured.fp32_tflops = rates.fp32_tflops;
    measured.launch_us = rates.launch_us;
    return measured;
}

}  // namespace weft
