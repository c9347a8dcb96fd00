// weft list: every op in a line.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/select.h"
#include "core/json_text.h"
#include "core/known_devices.h"

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
    std::cout << (json ? json_text(all, 2) + "\n" : table(rows));
    return kPassed;
}

std::string number(double value) { return value == 0 ? "-" : fmt::format("{:g}", value); }

int list_devices(bool json) {
    nlohmann::json all = nlohmann::json::array();
    std::vector<std::vector<std::string>> rows = {{"DEVICE", "NAME", "CAPABILITY", "SMS", "SHARED KIB",
                                                   "L2 MIB", "COPY TB/S", "READ TB/S", "16-BIT", "FP8",
                                                   "FP32 TFLOPS"}};
    for (const auto& [key, marketing, d, probed] : known_devices()) {
        const std::string capability = fmt::format("{}.{}", d.arch / 10, d.arch % 10);
        rows.push_back({std::string(key), d.name, capability, std::to_string(d.sms),
                        std::to_string(d.shared_per_block / 1024), std::to_string(d.l2_bytes >> 20),
                        number(d.copy_tbps), number(d.read_tbps), number(d.half_tflops), number(d.fp8_tflops),
                        number(d.fp32_tflops)});
        all.push_back({{"device", key},
                       {"name", d.name},
                       {"capability", capability},
                       {"sms", d.sms},
                       {"shared_kib_per_block", d.shared_per_block / 1024},
                       {"l2_mib", d.l2_bytes >> 20},
                       {"copy_tbps", d.copy_tbps},
                       {"read_tbps", d.read_tbps},
                       {"half_tflops", d.half_tflops},
                       {"fp8_tflops", d.fp8_tflops},
                       {"fp32_tflops", d.fp32_tflops},
                       {"probed", probed}});
    }
    std::cout << (json ? json_text(all, 2) + "\n" : table(rows));
    return kPassed;
}

}  // namespace

Command list_command() {
    return {"list", "Every op, its formula and how many implementations it has",
            "Examples:\n  weft list\n  weft list --json | jq -r '.[].op'\n  weft show rms_norm     all about "
            "one of them\n  weft list --devices    the GPUs that explain knows, and their figures\n",
            [](CommandLine& line) -> std::function<int()> {
                struct Arguments {
                    bool json = false, devices = false;
                };
                auto a = std::make_shared<Arguments>();
                line.add("--devices", &a->devices,
                         "the GPUs that --device of explain names, instead of the ops");
                line.add("--json", &a->json, "print JSON");
                return [a] { return a->devices ? list_devices(a->json) : list(a->json); };
            }};
}

}  // namespace weft::cli
