// weft fuzz: many random cases.
#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "cli/command.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/select.h"
#include "core/json_text.h"
#include "sites/reached.h"
#include "verify/guided.h"

namespace weft::cli {
namespace {

struct Arguments {
    std::vector<std::string> ops;
    std::string device, values;
    FuzzOptions options;
    bool json = false, guided = false;
    std::string corpus;
};

FuzzReport fuzz_op(const OpEntry& op, const Arguments& a, Device device) {
    FuzzOptions options = a.options;
    options.device = device;
    options.values = pick_values(a.values);
    Progress progress("fuzz " + op.contract().name(), options.cases);
    options.progress = [&](int done) { progress.at(done); };
    return fuzz(op, options);
}

nlohmann::json to_json(const OpEntry& op, const FuzzReport& report, Device device) {
    nlohmann::json failures = nlohmann::json::array();
    for (const auto& f : report.failures) {
        Outcome outcome;
        outcome.passed = false;
        outcome.why = f.why;
        failures.push_back(cli::to_json(Line{f.trial, outcome, {}}, device));
    }
    return {{"op", op.contract().name()}, {"cases", report.cases},
            {"failures", failures},       {"implementations", report.implementations},
            {"worst", report.worst},      {"worst_command", report.worst_command}};
}

void print(const OpEntry& op, const FuzzReport& report, Device device) {
    for (const auto& f : report.failures) {
        Outcome outcome;
        outcome.passed = false;
        outcome.why = f.why;
        std::cout << failure_text({f.trial, outcome, {}}, device);
    }
    std::string ran;
    for (const auto& [name, count] : report.implementations)
        ran += fmt::format("{}{} {}", ran.empty() ? "" : ", ", name, count);
    std::cout << fmt::format("{:<20} {:>6} cases, {} failed; {}; worst at {:.0f} % of its tolerance\n",
                             op.contract().name(), report.cases, report.failures.size(),
                             ran.empty() ? "no implementation takes any" : ran, 100 * report.worst)
              << std::flush;
}

// Writes a corpus: what stands above this line was written by hand, and stays.
void write_corpus(const std::string& path, const std::vector<Trial>& found) {
    constexpr std::string_view kFound = "# found by scripts/coverage --guided\n";
    std::stringstream before;
    before << std::ifstream(path).rdbuf();
    const std::size_t end = before.str().find(kFound);
    std::string text = end == std::string::npos ? "" : before.str().substr(0, end);
    text += kFound;
    for (const Trial& trial : found) {
        const std::string line = corpus_line(trial) + "\n";
        if (text.find(line) == std::string::npos) text += line;
    }
    std::ofstream(path) << text;
}

// Keeps the corpus of one op: what it holds, and what new cases reach besides.
int fuzz_guided_one(const OpEntry& op, const Arguments& a, Device device) {
    if (!sites::instrumented())
        throw Failure(kUsage, "this build marks nothing: `scripts/coverage OP --guided` makes one that does");
    FuzzOptions options = a.options;
    options.device = device;
    Progress progress("fuzz " + op.contract().name(), options.cases);
    options.progress = [&](int done) { progress.at(done); };
    const GuidedReport report = fuzz_guided(op, options, read_corpus(a.corpus));
    for (const auto& f : report.failures) std::cout << f.why << "\n  " << command(f.trial, device) << "\n";
    if (a.corpus.empty()) {
        for (const Trial& trial : report.corpus) std::cout << corpus_line(trial) << "\n";
    } else {
        write_corpus(a.corpus, report.corpus);
    }
    std::cout << fmt::format("{:<20} {:>6} cases, {} failed; {} of them reach all {} marks\n",
                             op.contract().name(), report.cases, report.failures.size(), report.corpus.size(),
                             report.reached);
    return report.failures.empty() ? kPassed : kWrong;
}

int fuzz_all(const Arguments& a) {
    const Device device = pick_device(a.device);
    const Selection selection = select(a.ops, a.options.implementation);
    if (selection.single)
        throw Failure(kUsage, "fuzz draws its own cases: name ops, or use `weft verify` for one case");
    if (a.guided) {
        if (selection.ops.size() != 1) throw Failure(kUsage, "--guided keeps the corpus of one op: name it");
        return fuzz_guided_one(*selection.ops.front(), a, device);
    }
    nlohmann::json reports = nlohmann::json::array();
    std::size_t failed = 0;
    int ran = 0;
    for (const OpEntry* op : selection.ops) {
        const FuzzReport report = fuzz_op(*op, a, device);
        failed += report.failures.size();
        ran += report.cases;
        if (a.json) {
            reports.push_back(to_json(*op, report, device));
        } else {
            print(*op, report, device);
        }
    }
    if (a.json) std::cout << json_text(reports, 2) << "\n";
    if (ran == 0) return kUnsupported;
    return failed == 0 ? kPassed : kWrong;
}

}  // namespace

Command fuzz_command() {
    return {"fuzz", "Verify many random cases of an op",
            "Cases follow from the contract: sizes, dtypes, options, optional fields, strides, unaligned "
            "bases, shared\n"
            "memory, zero rows. All kinds of values in turn; in the emulator every other case runs its "
            "threads and blocks\n"
            "in a random order. A failure prints the command that runs it again.\n\n"
            "Examples:\n  weft fuzz softmax --cases 10000\n  weft fuzz all --cases 200 --device emulator "
            "--seed 7\n",
            [](CommandLine& line) -> std::function<int()> {
                auto a = std::make_shared<Arguments>();
                line.add("op", &a->ops, "ops, or 'all'").required();
                line.add("--cases", &a->options.cases, "how many an op").with_default();
                line.add("--seed", &a->options.seed, "of the cases").with_default();
                line.add("--device", &a->device, "cpu, emulator or cuda (default: the best here)");
                line.add("--values", &a->values,
                         "usual, wide, tiny, constant, special, rising, ties or all (the default)");
                line.add("--implementation", &a->options.implementation,
                         "only this one (default: half the cases as dispatched, half by any that accepts)");
                line.add("--elements", &a->options.limits.elements, "most elements of a case").with_default();
                line.add("--flops", &a->options.limits.flops, "most operations of a case").with_default();
                line.add("--failures", &a->options.most_failures, "stop after so many").with_default();
                line.add("--json", &a->json, "print JSON");
                line.add("--guided", &a->guided,
                         "keep few cases that reach all that any reached (in an instrumented build)");
                line.add("--corpus", &a->corpus, "with --guided: the file to start from and to write");
                return [a] { return fuzz_all(*a); };
            }};
}

}  // namespace weft::cli
