// Contracts and cases as JSON: what the tool prints and what other languages build upon.
#pragma once

#include <nlohmann/json.hpp>

#include "weft/case.h"

namespace weft {

// {"op", "formula", "fields": [{"name", "role": in|out|in-out, "optional", "axes", "dtypes", "layout",
//   "in_place_of", "rules": ["only beside gate"], "meaning"}], "options": [{"name", "kind": real|integer|boolean|choice, "default",
//   "meaning", "range" or "choices"}], "tolerance", "replaces", "implementations": {device: [names]},
//   "deterministic"}
nlohmann::json describe(const OpEntry& op);

// {"op", "case": the line, "tensors": {name: {"dtype", "shape"; "stride", "offset", "alias" where they are
// not the usual ones}}, "options": {name: value}}; absent fields are left out.
nlohmann::json describe(const Case& c);

}  // namespace weft
