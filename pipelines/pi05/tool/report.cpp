// Printing what a session found.
#include "pipelines/pi05/tool/report.h"

#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/select.h"

namespace weft {
namespace {

// What bounds a label's calls: the larger of its two floors decides which rate is worth showing.
std::string rate(const LabelTime& t) {
    const bool matrix = t.math != DType::fp32 && t.flops > 150 * t.bytes;
    return matrix ? fmt::format("{:.0f} TFLOP/s", t.flops / t.us * 1e-6)
                  : fmt::format("{:.2f} TB/s", t.bytes / t.us * 1e-6);
}

}  // namespace

void print_report(const SessionResult& result) {
    fmt::print("{} tokens, {} layers of width {}\n", result.tokens, result.config.layers,
               result.config.width);
    if (result.samples_us.empty()) return;
    auto ms = [&](double share) { return quantile(result.samples_us, share) / 1e3; };
    fmt::print("latency {:.3f} ms (p10 {:.3f}, p90 {:.3f})", ms(0.5), ms(0.1), ms(0.9));
    if (result.launches_per_layer > 0) fmt::print(", {:.1f} launches a layer", result.launches_per_layer);
    double total = 0;
    for (const LabelTime& t : result.labels) total += t.us;
    fmt::print("\n\n{:<12}{:<18}{:<22}{:>7}{:>11}{:>8}{:>15}{:>9}\n", "step", "op", "implementation", "calls",
               "us a call", "share", "rate", "% floor");
    for (const LabelTime& t : result.labels) {
        const std::string floor = t.floor_us > 0 ? fmt::format("{:.0f}", 100 * t.floor_us / t.us) : "-";
        fmt::print("{:<12}{:<18}{:<22}{:>7}{:>11.2f}{:>7.1f}%{:>15}{:>9}\n", t.label, t.op, t.implementation,
                   t.calls, t.us / t.calls, 100 * t.us / total, rate(t), floor);
    }
    fmt::print("sum of the steps, each label's calls alone: {:.3f} ms\n", total / 1e3);
}

std::string plan_table(const std::vector<LabelTime>& plan,
                       const std::vector<std::pair<std::string, const SessionResult*>>& here) {
    std::vector<std::vector<std::string>> rows = {{"STEP", "OP", "IMPLEMENTATION", "CONFIGURATION", "FLOOR"}};
    for (const auto& [column, session] : here) rows[0].push_back(column);
    for (const LabelTime& t : plan) {
        rows.push_back(
            {t.label, t.op, t.implementation, t.config, fmt::format("{:.1f} us", t.floor_us / t.calls)});
        for (const auto& [column, session] : here) {
            const auto same =
                std::find_if(session->labels.begin(), session->labels.end(),
                             [&](const LabelTime& done) { return done.label == t.label && done.op == t.op; });
            rows.back().push_back(same == session->labels.end() ? "-" : same->implementation);
        }
    }
    return cli::table(rows, "  ");
}

nlohmann::json to_json(const SessionResult& result) {
    nlohmann::json labels = nlohmann::json::array();
    for (const LabelTime& t : result.labels) {
        labels.push_back({{"label", t.label},
                          {"op", t.op},
                          {"implementation", t.implementation},
                          {"calls", t.calls},
                          {"us", t.us},
                          {"floor_us", t.floor_us},
                          {"bytes", t.bytes},
                          {"flops", t.flops}});
    }
    return {{"tokens", result.tokens},
            {"layers", result.config.layers},
            {"samples_us", result.samples_us},
            {"launches_per_layer", result.launches_per_layer},
            {"labels", labels}};
}

std::string baseline_table(const nlohmann::json& report) {
    struct Line {
        std::string name;
        double median, p10, p90;
    };
    std::vector<Line> lines;
    double compiled = 0;
    for (const auto& [name, us] : report.at("us").items()) {
        lines.push_back({name, us.at("median"), us.at("p10"), us.at("p90")});
        if (name.starts_with("torch.compile")) compiled = lines.back().median;
    }
    std::sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.median < b.median; });
    std::string text =
        fmt::format("{:<28}{:>10}{:>18}{:>22}\n", "", "ms", "p10-p90", "torch.compile's / its");
    for (const Line& line : lines) {
        const std::string span = fmt::format("{:.3f}-{:.3f}", line.p10 / 1e3, line.p90 / 1e3);
        text += fmt::format("{:<28}{:>10.3f}{:>18}{:>22}\n", line.name, line.median / 1e3, span,
                            compiled > 0 ? fmt::format("{:.2f}x", compiled / line.median) : "-");
    }
    return text;
}

std::vector<std::int64_t> made_up_prompt(std::int64_t count) {
    std::vector<std::int64_t> ids = {2};  // Gemma's beginning-of-sequence
    for (std::int64_t i = 1; i < count; ++i) ids.push_back(3 + (i * 769) % 2045);
    ids.resize(static_cast<std::size_t>(count));
    return ids;
}

}  // namespace weft
