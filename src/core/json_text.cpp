// The writer and the parser.
#include "core/json_text.h"

#include <istream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace weft {

std::string json_text(const nlohmann::json& value, int indent) { return value.dump(indent); }
std::string json_text(const nlohmann::ordered_json& value, int indent) { return value.dump(indent); }

nlohmann::json parse_json(std::string_view text) { return nlohmann::json::parse(text, nullptr, false); }
nlohmann::json parse_json(std::istream& in) {
    return parse_json(std::string(std::istreambuf_iterator<char>(in), {}));
}

}  // namespace weft
