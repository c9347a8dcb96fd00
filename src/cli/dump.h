// The reference's results in files, for oracles in other languages.
#pragma once

#include <filesystem>
#include <vector>

#include "cli/report.h"

namespace weft::cli {

// One trial: into the folder itself; several: into folders 0000, 0001, … of it. Each gets
// inputs.safetensors      every tensor that the op reads, in its dtype (fp4 as codes, U8)
// reference.safetensors   every output: NAME in its dtype; NAME.exact and NAME.error, float64 as the I64 of
//                         its bits; NAME.written, U8
// case.json               the case line, shapes, dtypes and options
void dump_trials(const std::filesystem::path& folder, const std::vector<Line>& lines);

}  // namespace weft::cli
