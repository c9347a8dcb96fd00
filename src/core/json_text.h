// JSON to text and back. nlohmann-json's writer and parser take seconds to compile: json_text.cpp does it once for all.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace weft {

// In one line, or with as many columns for a level as `indent` says. Throws nlohmann::json::exception where a string is no
// UTF-8.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

// What is no JSON gives a value that is_discarded().
nlohmann::json parse_json(std::string_view text);
nlohmann::json parse_json(std::istream& in);

}  // namespace weft
