// weft verify: an implementation against the reference.
#include <fmt/format.h>

#include <algorithm>

#include "cli/command.h"
#include "cli/dump.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/select.h"
#include "core/json_text.h"
#include "verify/fuzz.h"

namespace weft::cli {
namespace {

constexpr double kMostFlops = 2e9, kMostElements = 1e8;  // of a table's row, unless asked for by itself

struct Arguments {
    std::vector<std::string> words;
    std::string workload, device, values, implementation, dump;
    int cases = 50;
    std::uint64_t seed = 0, order = 0;
    bool json = false, all_rows = false;
};

struct Plan {
    std::vector<Line> lines;
    int skipped = 0;  // rows too large to be checked here
};

bool affordable(const Case& c, Device device) {
    const double scale = device.type == DeviceType::emulator ? 0.002 : 1;  // it is that much slower
    double elements = 0, flops = 0;
    for (const TensorSpec& t : c.tensors) elements += t.present ? static_cast<double>(t.span()) : 0;
    c.with_call(device, [&](const void* call) { flops = c.contract().work(call).flops; });
    // On a GPU only the reference takes long, and of long calls it does a sample.
    return elements <= kMostElements * scale &&
           (flops <= kMostFlops * scale || device.type == DeviceType::cuda);
}

// Does the implementation that was asked for take the case? What nothing takes is an error when it runs.
bool wanted(const Arguments& a, const Case& c, Device device) {
    if (a.implementation.empty()) return true;
    const std::vector<std::string> takers = accepting(c, device);
    return std::find(takers.begin(), takers.end(), a.implementation) != takers.end();
}

void add(Plan& plan, const Arguments& a, const Case& c, const std::string& workload = {}) {
    const auto chosen = pick_values(a.values);
    for (const Values values : kAllValues) {
        const bool included = chosen ? values == *chosen : a.values == "all" || values == Values::usual;
        if (included) plan.lines.push_back({{c, a.seed, values, a.order, a.implementation}, {}, workload});
    }
}

void add_rows(Plan& plan, const Arguments& a, Device device, const std::vector<NamedCase>& rows) {
    for (const NamedCase& row : rows) {
        if (!wanted(a, row.c, device)) continue;
        if (!a.all_rows && !affordable(row.c, device)) {
            ++plan.skipped;
        } else {
            add(plan, a, row.c, row.workload);
        }
    }
}

void add_generated(Plan& plan, const Arguments& a, Device device, const OpEntry& op) {
    Random random(a.seed, 1);
    const auto chosen = pick_values(a.values);
    for (int i = 0; i < a.cases; ++i) {
        const auto c = generate(op, device_info(device), random, {});
        if (!c) break;
        if (!wanted(a, *c, device)) continue;
        const Values values =
            chosen.value_or(kAllValues[static_cast<std::size_t>(i) % std::size(kAllValues)]);
        plan.lines.push_back({{*c, a.seed, values, a.order, a.implementation}, {}, {}});
    }
}

Plan make_plan(const Arguments& a, Device device) {
    Plan plan;
    if (!a.workload.empty()) {
        const OpEntry* rung = is_rung(a.implementation) ? &pick_rung(a.implementation).entry : nullptr;
        add_rows(plan, a, device, workload_cases(a.workload, rung));
        return plan;
    }
    const Selection selection = select(a.words, a.implementation);
    if (selection.single) add(plan, a, *selection.single);
    for (const OpEntry* op : selection.ops) {
        add_generated(plan, a, device, *op);
        if (a.dump.empty()) add_rows(plan, a, device, workload_cases("", op));
    }
    return plan;
}

void print_summary(const Plan& plan, Device device, int failed) {
    const auto ran = plan.lines.size();
    if (ran == 1 && failed == 0) {
        const Line& line = plan.lines.front();
        fmt::print("passed: {}\n  by {} on {}; the worst element used {:.0f} % of its tolerance\n",
                   line.trial.c.line(), line.outcome.implementation, device_info(device).name,
                   100 * line.outcome.worst);
    } else if (ran > 0) {
        fmt::print("{} of {} cases passed on {}\n", ran - static_cast<std::size_t>(failed), ran,
                   device_info(device).name);
    } else {
        fmt::print("nothing to verify: no such op has an implementation for {}\n", device_info(device).name);
    }
    if (plan.skipped > 0) {
        fmt::print("{} workload rows were left out as too large for a check here (--all-rows takes them)\n",
                   plan.skipped);
    }
}

int verify_all(const Arguments& a) {
    const Device device = pick_device(a.device);
    Plan plan = make_plan(a, device);
    if (!a.dump.empty()) {
        dump_trials(a.dump, plan.lines);
        return kPassed;
    }
    nlohmann::json rows = nlohmann::json::array();
    int failed = 0, done = 0;
    Progress progress("verify", static_cast<std::int64_t>(plan.lines.size()));
    for (Line& line : plan.lines) {
        line.outcome = attempt(line.trial, device);
        failed += line.outcome.passed ? 0 : 1;
        progress.at(++done);
        if (a.json) rows.push_back(to_json(line, device));
        if (line.outcome.passed || a.json) continue;
        progress.clear();
        std::cout << failure_text(line, device) << std::flush;
    }
    progress.clear();
    if (a.json) {
        std::cout << json_text(
                         nlohmann::json{{"results", rows}, {"failed", failed}, {"skipped", plan.skipped}}, 2)
                  << "\n";
    } else {
        print_summary(plan, device, failed);
    }
    std::fflush(stdout);
    if (plan.lines.empty()) return kUnsupported;
    return failed == 0 ? kPassed : kWrong;
}

}  // namespace

Command verify_command() {
    return {"verify", "Check implementations against the reference",
            "Inputs are random, outputs poisoned, inputs and memory around them compared bit for bit, every "
            "element held\n"
            "to the tolerance of its op's contract, and a second run over another poison must give the same "
            "bits.\n"
            "An op without a case: cases generated from its contract, and its rows of workloads/. No op: all "
            "of them.\n"
            "A failing case prints the command that runs it again.\n\n"
            "Examples:\n  weft verify                                  every op\n"
            "  weft verify rms_norm softmax --device emulator\n"
            "  weft verify 'rms_norm x=bf16[4,64] weight=bf16[64]' --values all\n"
            "  weft verify --workload workloads/transformer.csv --device cuda\n"
            "  weft verify softmax --implementation ladder/softmax/03_safe_f32    a rung (weft ladder)\n",
            [](CommandLine& line) -> std::function<int()> {
                auto a = std::make_shared<Arguments>();
                line.add("target", &a->words, "ops, or one case line");
                line.add("--workload", &a->workload, "a CSV file with a column 'case'");
                line.add("--device", &a->device, "cpu, emulator or cuda (default: the best here)");
                line.add("--seed", &a->seed, "of inputs and generated cases").with_default();
                line.add("--values", &a->values,
                         "usual, wide, tiny, constant, special, rising, ties or all (default: usual for a "
                         "case, all in turn for generated ones)");
                line.add("--implementation", &a->implementation, "run this one, not the first that accepts");
                line.add("--order", &a->order, "emulator: run threads in a random order of this seed");
                line.add("--cases", &a->cases, "generated cases an op").with_default();
                line.add("--all-rows", &a->all_rows, "also workload rows that take long");
                line.add("--dump", &a->dump,
                         "write inputs and the reference's results into this folder instead");
                line.add("--json", &a->json, "print JSON");
                return [a] { return verify_all(*a); };
            }};
}

}  // namespace weft::cli
