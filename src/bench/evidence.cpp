// Rows of evidence.
#include "bench/evidence.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <memory>
#include <random>

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

nlohmann::json to_json(const std::optional<Statistics>& s) {
    if (!s) return nullptr;
    return {{"median", s->median}, {"mean", s->mean}, {"std", s->deviation},
            {"min", s->minimum},   {"p10", s->p10},   {"p90", s->p90}};
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
    const std::string commit = ask("git rev-parse HEAD 2>/dev/null");
    const std::time_t now = std::time(nullptr);
    return {
        {"env", random_id()},
        {"gpu", device_info(device).name},
        {"driver", gpu("driver_version")},
        {"cuda",
         null_if_empty(ask("nvcc --version 2>/dev/null | sed -n 's/.*release \\([0-9.]*\\).*/\\1/p'"))},
        {"libraries", {{"weft", kVersion}}},
        {"commit", null_if_empty(commit)},
        {"dirty", commit.empty() ? nlohmann::json()
                                 : nlohmann::json(!ask("git status --porcelain -uno 2>/dev/null").empty())},
        {"flags", "-O2"},
        {"command", command},
        {"clocks", gpu("clocks.sm,clocks.mem")},
        {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now))}};
}

std::vector<nlohmann::json> measurement_rows(const Case& c, const Measurement& m, const RowContext& context) {
    std::vector<nlohmann::json> rows;
    for (const bool cold : {true, false}) {
        const auto& statistics = cold ? m.cold : m.hot;
        nlohmann::json row = {{"run", context.run},
                              {"case", c.line()},
                              {"workload", null_if_empty(context.workload)},
                              {"side", "weft"},
                              {"name", m.implementation},
                              {"time", "device"},
                              {"cache", cold ? "cold" : "hot"},
                              {"us", to_json(statistics)},
                              {"samples", statistics ? statistics->samples : 0},
                              {"floor_us", m.floor_us},
                              {"bytes", m.work.bytes},
                              {"flops", m.work.flops},
                              {"checked", m.checked},
                              {"env", context.env}};
        if (!m.checked_on.empty()) row["checked_on"] = m.checked_on;
        if (!m.why.empty()) row["why"] = m.why;
        rows.push_back(std::move(row));
    }
    return rows;
}

}  // namespace weft
