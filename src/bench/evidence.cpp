// Rows of evidence.
#include "bench/evidence.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <random>
#include <string_view>

namespace weft {
extern const char* const kVersion;

namespace {

// The first line that a command prints, or an empty string.
std::string ask(const char* command) {
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command, "r"), pclose);
    std::array<char, 512> line{};
    if (pipe == nullptr || std::fgets(line.data(), line.size(), pipe.get()) == nullptr) return {};
    std::string text = line.data();
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    return text;
}

nlohmann::json null_if_empty(const std::string& text) {
    return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

// No clock tells more than six digits, and they take half of the room.
double six_digits(double value) { return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr); }

nlohmann::json to_json(const Statistics& s) {
    return {{"median", six_digits(s.median)}, {"mean", six_digits(s.mean)}, {"std", six_digits(s.deviation)},
            {"min", six_digits(s.minimum)},   {"p10", six_digits(s.p10)},   {"p90", six_digits(s.p90)}};
}

// What only a timed row has.
void add_timing(nlohmann::json& row, const Timing& timing) {
    row["us"] = to_json(timing.us);
    row["samples"] = timing.us.samples;
    if (timing.dropped > 0) row["dropped"] = timing.dropped;
    if (timing.power_capped > 0) row["power_capped"] = timing.power_capped;
    if (!timing.sm_mhz.empty()) row["sm_mhz"] = summarize(timing.sm_mhz).median;
}

void add_ratio(nlohmann::json& row, const Result& weft, const Result& other, Time time, Cache cache) {
    const auto &fast = weft.at(time, cache), &slow = other.at(time, cache);
    if (!fast || !slow || other.side != Side::baseline || !other.computes) return;
    const Ratio r = ratio_of(slow->samples, fast->samples);
    row["weft_speedup"] = {
        {"ratio", six_digits(r.ratio)}, {"low", six_digits(r.low)}, {"high", six_digits(r.high)}};
}

}  // namespace

std::string random_id() {
    std::random_device random;
    return fmt::format("{:06x}{:06x}", random() & 0xffffff, random() & 0xffffff);
}

nlohmann::json environment_row(Device device, const std::string& command) {
    const char* kQuery = "nvidia-smi --query-gpu={} --format=csv,noheader --id={} 2>/dev/null";
    const auto gpu = [&](const char* what) {
        return null_if_empty(ask(fmt::format(fmt::runtime(kQuery), what, device.index).c_str()));
    };
    const char* const given = std::getenv("WEFT_COMMIT");  // where the sources came without their history
    const char* const changed = std::getenv("WEFT_DIRTY");
    const std::string commit = given != nullptr ? given : ask("git rev-parse HEAD 2>/dev/null");
    const bool dirty = changed != nullptr ? std::string_view(changed) != "0"
                                          : !ask("git status --porcelain -uno 2>/dev/null").empty();
    const std::time_t now = std::time(nullptr);
    return {{"env", random_id()},
            {"gpu", device_info(device).name},
            {"driver", gpu("driver_version")},
            {"cuda",
             null_if_empty(ask("nvcc --version 2>/dev/null | sed -n 's/.*release \\([0-9.]*\\).*/\\1/p'"))},
            {"libraries", {{"weft", kVersion}}},
            {"commit", null_if_empty(commit)},
            {"dirty", commit.empty() ? nlohmann::json() : nlohmann::json(dirty)},
            {"flags", "weft: -O2, sm_90a, no fast math; baselines: their own builds"},
            {"command", command},
            {"clocks", gpu("clocks.sm,clocks.mem,clocks_event_reasons.active")},
            {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now))}};
}

std::vector<nlohmann::json> measurement_rows(const std::string& line, const Measurement& m,
                                             const RowContext& context) {
    std::vector<nlohmann::json> rows;
    const auto add = [&](const Result& result, Time time, Cache cache) {
        nlohmann::json row = {{"run", context.run},
                              {"case", line},
                              {"workload", null_if_empty(context.workload)},
                              {"side", name(result.side)},
                              {"name", result.name},
                              {"time", name(time)},
                              {"cache", name(cache)},
                              {"us", nullptr},
                              {"samples", 0},
                              {"floor_us", six_digits(m.floor_us)},
                              {"bytes", m.work.bytes},
                              {"flops", m.work.flops},
                              {"checked", result.checked},
                              {"env", context.env}};
        if (!m.checked_on.empty()) row["checked_on"] = m.checked_on;
        if (result.rounds_between && result.checked) row["rounds_between"] = true;
        if (!result.why.empty()) row["why"] = result.why;
        if (result.at(time, cache)) add_timing(row, *result.at(time, cache));
        if (m.weft() != nullptr) add_ratio(row, *m.weft(), result, time, cache);
        rows.push_back(std::move(row));
    };
    for (const Result& result : m.results) {
        if (!result.checked) add(result, Time::device, Cache::cold);
        for (const Time time : kTimes) {
            for (const Cache cache : kCaches) {
                if (result.at(time, cache)) add(result, time, cache);
            }
        }
    }
    return rows;
}

}  // namespace weft
