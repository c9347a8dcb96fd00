// weft tune: times what implementations can choose from, and keeps the choices in a file.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/command.h"
#include "cli/select.h"
#include "verify/instance.h"
#include "weft/plans.h"

namespace weft::cli {
namespace {

struct Arguments {
    std::vector<std::string> words;
    std::string workload, device, out;
};

std::vector<NamedCase> cases_of(const Arguments& a) {
    const Selection selection = select(a.words);
    if (selection.single) return {{"", *selection.single}};
    std::vector<NamedCase> cases;
    for (const OpEntry* op : selection.ops) {
        for (NamedCase& row : workload_cases(a.workload, op)) cases.push_back(std::move(row));
    }
    if (cases.empty()) throw Failure(kUsage, "no workload row has a case line of these ops");
    return cases;
}

bool can_choose(const OpEntry& op, Device device) {
    const auto& list = op.implementations[static_cast<int>(device.type)];
    return std::any_of(list.begin(), list.end(),
                       [](const AnyImplementation& i) { return static_cast<bool>(i.prepare); });
}

// How the implementations that have choices would run a case, timed.
std::string tune(const Case& c, Context& context) {
    const Instance operands(c, context.device(), 0, Values::usual);
    std::string text;
    const auto& list = c.op().implementations[static_cast<int>(context.device().type)];
    const auto verdicts = explain(c.op(), operands.call(), context);
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
        if (!list[i].prepare) continue;
        const Verdict& v = verdicts[i];
        text += fmt::format("  {}: {}\n", v.implementation,
                            v.reason.empty() ? v.config : "declines, " + v.reason);
    }
    return text;
}

int tune_all(const Arguments& a) {
    const Device device = pick_device(a.device);
    Context context(device);
    context.set_tuning(true);
    if (std::filesystem::exists(a.out)) context.plans() = Plans::read(a.out);
    int tuned = 0;
    for (const NamedCase& row : cases_of(a)) {
        if (!can_choose(row.c.op(), device)) continue;
        std::cout << row.c.line() << "\n" << tune(row.c, context) << std::flush;
        context.plans().write(a.out);  // what is there when somebody stops it
        ++tuned;
    }
    if (tuned == 0) {
        throw Failure(kUnsupported,
                      fmt::format("nothing to choose: no implementation for {} of these ops has "
                                  "anything to time",
                                  device_info(device).name));
    }
    std::cout << fmt::format("{} cases; read by what runs with WEFT_PLANS={}\n", tuned, a.out);
    return kPassed;
}

}  // namespace

Command tune_command() {
    return {"tune", "Time a vendor library's choices once, and keep them in a file",
            "Of problems that neither such a file nor the library's own plans know, cuBLASLt's heuristic\n"
            "decides at the first call, and nothing is timed. Here each case's candidates are timed as a\n"
            "model runs them (in a graph, weights not in L2). A choice holds for the library's version, the\n"
            "card, and all row counts of a bucket: up to 1, 2, 3, 4, 6, 8, 12, ...\n"
            "A file that exists is added to: delete it to time everything again.\n\n"
            "Examples:\n  weft tune gemm --workload workloads/transformer.csv\n"
            "  weft tune 'gemm a=bf16[968,2048] b=bf16[2560,2048]' --out plans.json\n"
            "  WEFT_PLANS=plans.json weft bench gemm\n",
            [](CommandLine& line) -> std::function<int()> {
                auto a = std::make_shared<Arguments>();
                a->out = "plans.json";
                line.add("target", &a->words, "a case line, or ops whose workload rows are timed");
                line.add("--workload", &a->workload, "a CSV file with a column 'case' (default: all)");
                line.add("--device", &a->device, "cuda, emulator or cpu (default: the best here)");
                line.add("--out", &a->out, "the file").with_default();
                return [a] { return tune_all(*a); };
            }};
}

}  // namespace weft::cli
