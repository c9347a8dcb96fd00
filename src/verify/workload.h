// Tables of shapes that real models run: CSV files whose column `case` holds the case line.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// The cells of one table, header first. Quoted cells may hold commas and doubled quotes. Throws Error(io).
std::vector<std::vector<std::string>> read_csv(const std::filesystem::path& path);

struct WorkloadRow {
    std::string id;  // "transformer/pi05-geglu-10"
    std::string model;
    std::string line;  // the case line; empty where weft has no op or option for the row yet
};

// The rows of one file; a row with several case lines (separated by ';') gives several. Throws Error(io).
std::vector<WorkloadRow> read_workload(const std::filesystem::path& path);

// Every file of the folder that came with this program: $WEFT_WORKLOADS, the source tree's or the installed
// one.
std::vector<std::filesystem::path> workload_files();

}  // namespace weft
