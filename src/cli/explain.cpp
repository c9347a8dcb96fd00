// weft explain: which implementation takes a call on a device, and why the others do not.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "bench/floor.h"
#include "cli/command.h"
#include "cli/select.h"
#include "core/json_text.h"
#include "weft/case.h"

namespace weft::cli {
namespace {

struct Arguments {
    std::vector<std::string> words;
    std::string device, implementation;
    bool json = false;
};

const DeviceInfo& pick_info(const std::string& word) {
    if (const DeviceInfo* known = find_device(word)) return *known;
    if (word.empty() || word == "cpu" || word == "emulator" || word == "cuda")
        return device_info(pick_device(word));
    throw Failure(kUsage, fmt::format("--device {}: expected cpu, emulator, cuda or one of {}", word,
                                      fmt::join(device_names(), ", ")));
}

// The verdicts of the list that `device` would use. A build without CUDA kernels has none for GPUs; the emulator's is
// made of the same sources. A device that is here also has its libraries asked.
std::vector<Verdict> verdicts_of(const OpEntry& op, const void* call, const std::string& word,
                                 const DeviceInfo& device, bool& emulated) {
    emulated = op.implementations[static_cast<int>(device.type)].empty() && device.type == DeviceType::cuda;
    if (emulated) {
        DeviceInfo stand_in = device;
        stand_in.type = DeviceType::emulator;
        return explain(op, call, stand_in);
    }
    if (find_device(word) != nullptr) return explain(op, call, device);
    Context context(pick_device(word));
    return explain(op, call, context);
}

int explain_case(const Arguments& a) {
    const Selection selection = select(a.words, a.implementation);
    if (!selection.single)
        throw Failure(kUsage, "explain wants a case line, such as 'rms_norm x=bf16[4096,3072]'");
    const Case& c = *selection.single;
    const DeviceInfo& device = pick_info(a.device);
    c.check();
    bool emulated = false, accepted = false;
    nlohmann::json verdicts = nlohmann::json::array();
    std::vector<std::vector<std::string>> rows;
    Work work;
    c.with_call({device.type, 0}, [&](const void* call) {
        work = c.contract().work(call);
        for (const Verdict& v : verdicts_of(c.op(), call, a.device, device, emulated)) {
            const bool accepts = v.reason.empty(), first = accepts && !accepted;
            accepted = accepted || accepts;
            rows.push_back({first ? "->" : "", v.implementation,
                            accepts ? (first ? "chosen" : "would take it") : "declines",
                            accepts ? v.config : v.reason});
            verdicts.push_back({{"implementation", v.implementation},
                                {"chosen", first},
                                {"declined", v.reason},
                                {"config", v.config}});
        }
    });
    if (a.json) {
        std::cout << json_text(nlohmann::json{{"case", c.line()},
                                              {"device", device.name},
                                              {"implementations", verdicts},
                                              {"bytes", work.bytes},
                                              {"flops", work.flops},
                                              {"floor_us", floor_us(work, device)}},
                               2)
                  << "\n";
    } else {
        std::cout
            << fmt::format(
                   "{}\non {}{}\n", c.line(), device.name,
                   emulated
                       ? " (this build has no CUDA kernels: the emulator's list, without vendor libraries)"
                       : "")
            << table(rows, "  ");
        if (const std::string floor = floor_text(work, device); !floor.empty()) std::cout << floor << "\n";
    }
    return accepted ? kPassed : kUnsupported;
}

}  // namespace

Command explain_command() {
    return {"explain", "Say which implementation takes a case on a device, and why not the others",
            "The list is the one that `weft::run` asks, best first, each with its configuration or its "
            "reason for declining.\n"
            "Needs no GPU: --device takes h200, h100, a100, l40s, rtx4090, t4, b200, rtx5090, or cpu, "
            "emulator, cuda (here); weft list --devices says what is known of them.\n\n"
            "Examples:\n  weft explain 'rms_norm x=bf16[4096,3072] weight=bf16[3072]' --device h100\n"
            "  weft explain 'gemm a=bf16[560,2048] b=bf16[2560,2048]' --device rtx4090\n"
            "  WEFT_VERBOSE=dispatch weft verify ...    the same, for every call that runs\n",
            [](CommandLine& line) -> std::function<int()> {
                auto a = std::make_shared<Arguments>();
                line.add("case", &a->words, "one case line").required();
                line.add("--device", &a->device, "the device to ask for (default: the best here)");
                line.add("--implementation", &a->implementation,
                         "a rung of the ladder, instead of the library's list");
                line.add("--json", &a->json, "print JSON");
                return [a] { return explain_case(*a); };
            }};
}

}  // namespace weft::cli
