// weft list: every op in a line.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/select.h"

namespace weft::cli {
namespace {

int list(bool json) {
    nlohmann::json all = nlohmann::json::array();
    std::vector<std::vector<std::string>> rows = {{"OP", "FORMULA", "IMPLEMENTATIONS (cpu, cuda, emulator)"}};
    for (const OpEntry* op : all_ops()) {
        const Contract& c = op->contract();
        const auto& i = op->implementations;
        rows.push_back(
            {c.name(), c.formula(), fmt::format("{}, {}, {}", i[0].size(), i[1].size(), i[2].size())});
        all.push_back({{"op", c.name()},
                       {"formula", c.formula()},
                       {"cpu", i[0].size()},
                       {"cuda", i[1].size()},
                       {"emulator", i[2].size()}});
    }
    std::cout << (json ? all.dump(2) + "\n" : table(rows));
    return kPassed;
}

}  // namespace

Command list_command() {
    return {"list", "Every op, its formula and how many implementations it has",
            "Examples:\n  weft list\n  weft list --json | jq -r '.[].op'\n  weft show rms_norm     all about "
            "one of them\n",
            [](CommandLine& line) -> std::function<int()> {
                auto json = std::make_shared<bool>();
                line.add("--json", json.get(), "print JSON");
                return [json] { return list(*json); };
            }};
}

}  // namespace weft::cli
