// Faulty implementations of the probe, planted in front of its reference on the CPU.
#pragma once

#include "bench/bench.h"
#include "tests/core/probe.h"

namespace weft::test {

// What the planted implementation does: that of the latest planted().
inline std::function<void(const Probe&, Context&)> planted_launch;

inline Case planted(OpEntry& entry, std::function<void(const Probe&, Context&)> launch,
                    const char* line = "probe x=fp32[16,64] weight=fp32[64]") {
    entry = *find_op("probe");
    planted_launch = std::move(launch);
    entry.implementations[0] = {{"planted",
                                 +[](const Probe&, const DeviceInfo&) -> const char* { return nullptr; },
                                 +[](const Probe&, const DeviceInfo&) { return std::string(); },
                                 +[](const Probe& op, Context& context) { planted_launch(op, context); }}};
    Case c(entry);
    c.tensors = Case::parse(line).tensors;
    return c;
}

inline void right(const Probe& op) {
    Oracle plain;
    reference(op, plain);
}

inline BenchOptions quick() {
    BenchOptions options;
    options.sample = {.rounds = 3, .replay_us = 50, .seed = 1, .eager = true};
    return options;
}

inline Measurement measured(const Case& c, const BenchOptions& options = quick(), Device device = kCpu) {
    Bench bench(c, device, options);
    bench.add_weft();
    return bench.run();
}

}  // namespace weft::test
