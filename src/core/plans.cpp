// Plans and their file.
#include "weft/plans.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/json_text.h"
#include "core/shipped_plans.h"
#include "weft/context.h"
#include "weft/error.h"

namespace weft {
namespace {

constexpr const char* kFormat = "weft plans 1";

[[noreturn]] void fail(const std::string& path, const std::string& what) {
    throw Error(ErrorCode::io, "", "", path + ": " + what);
}

Plans::Sections sections_of(std::istream& in, const std::string& path) {
    const auto file = parse_json(in);
    if (!file.is_object() || file.value("format", nlohmann::json()) != kFormat)
        fail(path, std::string("is not a file of `weft tune` (\"format\": \"") + kFormat + "\")");
    try {
        return file.at("plans").get<Plans::Sections>();
    } catch (const nlohmann::json::exception& e) {
        fail(path, e.what());
    }
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
    Plans plans;
    plans.sections_ = sections_of(in, path);
    return plans;
}

const Plans& Plans::shipped() {
    static const Plans plans = [] {
        Plans all;
        for (const ShippedFile* file = kShippedPlans; file->path != nullptr; ++file) {
            std::istringstream in(file->text);
            for (auto& [section, choices] : sections_of(in, file->path))
                all.sections_[section].merge(choices);
        }
        return all;
    }();
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
        plans_ = std::make_shared<Plans>();
        if (path != nullptr && *path != '\0') *plans_ = Plans::read(path);
        // One that times knows better than what was timed for all row counts of a bucket.
        if (path == nullptr && !tuning()) *plans_ = Plans::shipped();
    }
    return *plans_;
}

}  // namespace weft
