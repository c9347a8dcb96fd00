// Plans and their file.
#include "weft/plans.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/json_text.h"
#include "weft/context.h"
#include "weft/error.h"

namespace weft {
namespace {

constexpr const char* kFormat = "weft plans 1";

[[noreturn]] void fail(const std::string& path, const std::string& what) {
    throw Error(ErrorCode::io, "", "", path + ": " + what);
}

}  // namespace

const std::string* Plans::find(const std::string& section, const std::string& key) const {
    const auto choices = sections_.find(section);
    if (choices == sections_.end()) return nullptr;
    const auto choice = choices->second.find(key);
    return choice == choices->second.end() ? nullptr : &choice->second;
}

Plans Plans::read(const std::string& path) {
    std::ifstream in(path);
    if (!in) fail(path, "can't be read");
    const auto file = parse_json(in);
    if (!file.is_object() || file.value("format", nlohmann::json()) != kFormat)
        fail(path, std::string("is not a file of `weft tune` (\"format\": \"") + kFormat + "\")");
    Plans plans;
    try {
        file.at("plans").get_to(plans.sections_);
    } catch (const nlohmann::json::exception& e) {
        fail(path, e.what());
    }
    return plans;
}

void Plans::write(const std::string& path) const {
    std::ofstream out(path);
    out << json_text(nlohmann::json{{"format", kFormat}, {"plans", sections_}}, 1) << "\n";
    if (!out.flush()) fail(path, "can't be written");
}

Plans& Context::plans() {
    if (plans_ == nullptr) {
        const char* path = std::getenv("WEFT_PLANS");
        plans_ = std::make_shared<Plans>(path != nullptr && *path != '\0' ? Plans::read(path) : Plans());
    }
    return *plans_;
}

}  // namespace weft
