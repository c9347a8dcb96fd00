// Device time of a case: checked first, through a graph of many calls, with cold and with hot caches.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/case.h"

namespace weft {

struct Statistics {
    double median = 0, mean = 0, deviation = 0, minimum = 0, p10 = 0, p90 = 0;
    int samples = 0;
};
// Throws where there are no samples.
Statistics summarize(std::vector<double> samples);

struct MeasureOptions {
    int rounds = 15;          // replays of the graph; each gives one sample
    double replay_us = 2000;  // a graph holds enough calls to take so long
    std::uint64_t seed = 0;
    std::string implementation;  // empty: the first that accepts
};

struct Measurement {
    std::string implementation;  // with its configuration
    Work work;
    double floor_us = 0;
    bool checked = false;    // right before and after timing; without it there are no times
    std::string checked_on;  // the case that was compared, where the whole one is too large for that
    std::string why;         // what was wrong
    std::optional<Statistics> cold, hot;  // microseconds a call
};

// Microseconds a call of an empty problem's kernel would take: a one-element kernel, hot.
double launch_floor_us(Device device);

// On the emulator and the CPU times are the host's, and say nothing of a GPU: only tests measure there.
Measurement measure(const Case& c, Device device, const MeasureOptions& options = {});

// The case itself, or with fewer rows where its operands have more than `most` elements together.
Case shortened(const Case& c, double most);

}  // namespace weft
