// The encoder's figures for people and for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "pipelines/pi05/session.h"

namespace weft {

// Latency, launches a layer, and a table by op: time, share, TB/s or TFLOP/s, percent of the floor.
void print_report(const SessionResult& result);
// What a device would run of each step, its floor for one call, and which implementations were checked here: `here` names
// a column for each session that was.
std::string plan_table(const std::vector<LabelTime>& plan,
                       const std::vector<std::pair<std::string, const SessionResult*>>& here);
nlohmann::json to_json(const SessionResult& result);

// What torch_baseline.py found, as a table: everything that was timed beside PyTorch, fastest first, and how
// many times faster than torch.compile it is.
std::string baseline_table(const nlohmann::json& report);

// Token ids without meaning, below 2048, the same on every machine: weft ships no tokenizer.
std::vector<std::int64_t> made_up_prompt(std::int64_t count);

}  // namespace weft
