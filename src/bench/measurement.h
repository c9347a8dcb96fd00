// What measuring a case gives.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/callable.h"
#include "bench/statistics.h"
#include "weft/contract.h"

namespace weft {

struct Timing {
    std::vector<double> samples;  // microseconds a call
    Statistics us;                // of the samples
    int dropped = 0;              // samples that were taken while the card throttled, and left out
    int power_capped = 0;         // of the samples, how many while the power limit held the clock
    std::vector<double> sm_mhz;   // the clock inside each sample's window; none where it is not known
};

enum class Time { device, eager };  // a graph of many calls; calls from the host, binding and launch included
enum class Cache { cold, hot };     // operands rotate over three times the L2; one set of them
inline constexpr Time kTimes[] = {Time::device, Time::eager};
inline constexpr Cache kCaches[] = {Cache::cold, Cache::hot};
const char* name(Side side);
const char* name(Time time);
const char* name(Cache cache);

inline constexpr std::string_view kFailed = "failed: ";  // begins why there is no result at all

struct Result {
    std::string name;
    Side side = Side::baseline;
    bool computes = true;  // false: it moves the case's bytes, and is no rival
    bool rounds_between =
        false;             // right as the chain of a framework's operators is, which rounds at each step
    bool checked = false;  // right before and after timing; without it there are no times
    std::string why;       // what was wrong, or kFailed and what it said
    std::optional<Timing> times[2][2];

    std::optional<Timing>& at(Time t, Cache c) { return times[static_cast<int>(t)][static_cast<int>(c)]; }
    const std::optional<Timing>& at(Time t, Cache c) const {
        return times[static_cast<int>(t)][static_cast<int>(c)];
    }
};

struct Measurement {
    Work work;
    double floor_us = 0;     // of the card's measured rates; 0 where they are not known
    std::string checked_on;  // which parts were compared with the reference; empty: all of the outputs
    std::size_t cold_sets = 0;
    std::vector<Result> results;  // weft first

    const Result* weft() const;                 // null where it has none
    const Result* best(Time t, Cache c) const;  // the fastest baseline that computes and passed, or null
};

}  // namespace weft
