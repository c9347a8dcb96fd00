// Trials as text and as JSON.
#include "cli/report.h"

#include <fmt/format.h>

namespace weft::cli {

nlohmann::json to_json(const Line& line, Device device) {
    nlohmann::json json = {{"case", line.trial.c.line()},   {"device", name(device.type)},
                           {"seed", line.trial.seed},       {"values", name(line.trial.values)},
                           {"passed", line.outcome.passed}, {"implementation", line.outcome.implementation},
                           {"worst", line.outcome.worst}};
    if (line.trial.order != 0) json["order"] = line.trial.order;
    if (!line.workload.empty()) json["workload"] = line.workload;
    if (!line.outcome.passed) {
        json["why"] = line.outcome.why;
        json["command"] = command(line.trial, device);
    }
    return json;
}

std::string failure_text(const Line& line, Device device) {
    std::string text = "FAILED  " + line.outcome.why + "\n";
    if (!line.workload.empty()) text += fmt::format("  workload {}\n", line.workload);
    if (!line.outcome.implementation.empty()) text += fmt::format("  by {}\n", line.outcome.implementation);
    return text + "  " + command(line.trial, device) + "\n";
}

}  // namespace weft::cli
