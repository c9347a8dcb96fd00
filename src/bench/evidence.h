// Measurements as rows of JSON, one a line, with the environment they were made in.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bench/measurement.h"
#include "weft/device_info.h"

namespace weft {

// What ran where: an id, and the GPU, driver, CUDA, commit, flags, command, clocks and date.
nlohmann::json environment_row(Device device, const std::string& command);

struct RowContext {
    std::string run;       // id of the process: only rows of one run are compared
    std::string env;       // id of the environment row
    std::string workload;  // "transformer/pi05-rms-560", or empty
};

// Of the case with that line a row for every callable, time and cache state; one with null times and `why` for what was wrong. A
// baseline's row says how many times weft is faster, with the interval of the ratio.
std::vector<nlohmann::json> measurement_rows(const std::string& line, const Measurement& m,
                                             const RowContext& context);

std::string random_id();  // 12 hexadecimal digits

}  // namespace weft
