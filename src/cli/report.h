// What verify and fuzz print of each trial.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "verify/trial.h"

namespace weft::cli {

struct Line {
    Trial trial;
    Outcome outcome;
    std::string workload;  // empty where the case is not from a table
};

nlohmann::json to_json(const Line& line, Device device);
// Two or three lines: what is wrong, and the command that shows it again.
std::string failure_text(const Line& line, Device device);

}  // namespace weft::cli
