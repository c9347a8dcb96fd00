// weft bench: times beside the floor and the baselines, and the host's cost of a call.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "bench/bench.h"
#include "bench/draw.h"
#include "bench/evidence.h"
#include "bench/host.h"
#include "bench/text.h"
#include "cli/command.h"
#include "cli/select.h"
#include "core/json_text.h"

namespace weft::cli {
namespace {

struct Arguments {
    std::vector<std::string> words;
    std::string workload, device, out, only, skip_done, ladder;
    std::vector<std::string> against, sample;
    std::optional<std::uint64_t> seed;
    int cases = 20;
    double budget_s = 0;
    BenchOptions bench;
    bool json = false, host = false, floor = false, list = false, kernels = false, untuned = false;
};

std::vector<Case> drawn_cases(const Arguments& a) {
    return draw_cases(select(a.sample).ops, a.cases, a.bench.sample.seed);
}

// The cases that a topic's rungs are measured on, or all topics': rows "topic,case".
std::vector<NamedCase> ladder_cases(const Arguments& a) {
    std::vector<NamedCase> cases;
    for (const auto& row : read_csv(a.workload.empty() ? "ladder/shapes.csv" : a.workload)) {
        if (row.size() == 2 && row[0] != "topic" && (a.ladder == "all" || a.ladder == row[0]))
            cases.push_back({"ladder/" + row[0], Case::parse(row[1])});
    }
    return cases;
}

std::vector<NamedCase> cases_of(const Arguments& a) {
    std::vector<NamedCase> cases;
    if (!a.ladder.empty()) {
        cases = ladder_cases(a);
    } else if (!a.sample.empty()) {
        for (Case& c : drawn_cases(a)) cases.push_back({"", std::move(c)});
    } else if (!a.workload.empty()) {
        const std::string& name = a.bench.implementation;
        cases = workload_cases(a.workload, is_rung(name) ? &pick_rung(name).entry : nullptr);
    } else {
        const Selection selection = select(a.words, a.bench.implementation);
        if (selection.single) return {{"", *selection.single}};
        if (a.words.empty())
            throw Failure(kUsage, "bench wants a case line, ops, --workload FILE, or --sample OPS");
        for (const OpEntry* op : selection.ops) {
            for (NamedCase& row : workload_cases("", op)) cases.push_back(std::move(row));
        }
    }
    std::erase_if(cases, [&](const NamedCase& c) {
        return !a.only.empty() && c.workload.find(a.only) == std::string::npos &&
               !c.c.line().starts_with(a.only + " ");
    });
    if (cases.empty()) throw Failure(kUsage, "no workload row has a case line of that op or name");
    return cases;
}

// Lines of cases that a file of rows has already.
std::set<std::string> cases_in(const std::string& path) {
    std::set<std::string> lines;
    if (path.empty()) return lines;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
        const auto row = parse_json(line);
        if (row.is_object() && row.contains("case")) lines.insert(row["case"]);
    }
    return lines;
}

// Rows on their way to a file, one case at a time: a run that is cut short keeps what it has.
class Rows {
   public:
    Rows(const Arguments& a, nlohmann::json env) : env_(std::move(env)), json_(a.json) {
        if (!a.sample.empty()) seed_ = a.bench.sample.seed;
        if (a.out.empty()) return;
        file_.open(a.out, std::ios::app);
        path_ = a.out;
        write(env_);
    }
    void add(const NamedCase& c, const Measurement& m) {
        for (auto& row : measurement_rows(c.c.line(), m, {run_, env_["env"], c.workload})) {
            if (seed_) row["seed"] = *seed_;
            write(row);
            if (json_) rows_.push_back(std::move(row));
        }
    }
    nlohmann::json all() const { return {{"env", env_}, {"rows", rows_}}; }

   private:
    void write(const nlohmann::json& row) {
        if (path_.empty()) return;
        file_ << json_text(row) << std::endl;
        if (!file_) throw Failure(kUsage, fmt::format("{}: can't be written", path_));
    }
    nlohmann::json env_;
    std::string run_ = random_id(), path_;
    std::ofstream file_;
    std::vector<nlohmann::json> rows_;
    std::optional<std::uint64_t> seed_;  // of a sample
    bool json_;
};

// What should have been right and is not: weft's own result, or that of a rung that is not wrong on purpose.
bool is_wrong(const Measurement& m) {
    const auto failed = [](const Result& r) {
        const ladder::Rung* rung = ladder::find(r.name);
        return rung != nullptr && !r.checked && rung->part("Wrong").empty();
    };
    return m.weft() == nullptr || !m.weft()->checked ||
           std::any_of(m.results.begin(), m.results.end(), failed);
}

Measurement measure(const NamedCase& c, const Arguments& a, Device device) {
    Bench bench(c.c, device, a.bench);
    bench.add_weft();
    const auto wanted = [&](const char* name) {
        return a.against.empty() || std::find(a.against.begin(), a.against.end(), name) != a.against.end();
    };
    if (wanted("vendors")) bench.add_vendors();
    if (wanted("card")) bench.add_card();
    for (const ladder::Rung* rung : ladder::rungs()) {
        if (!a.ladder.empty() && c.workload == "ladder/" + rung->topic()) bench.add_entry(rung->entry);
    }
    return bench.run();
}

// A case that can't be measured at all is a result without times, like a wrong one.
// `broken`: by an error of CUDA's, after which nothing can be relied on.
Measurement attempt(const NamedCase& c, const Arguments& a, Device device, bool& broken) {
    try {
        return measure(c, a, device);
    } catch (const Error& e) {
        Measurement m;
        Result& result = m.results.emplace_back();
        result.side = Side::weft;
        result.name = "none";
        result.why = e.what();
        broken = e.code() == ErrorCode::cuda;
        return m;
    }
}

std::string command_of(const Arguments& a) {
    std::string text = "weft bench ";
    if (!a.ladder.empty()) {
        text += "--ladder " + a.ladder;
    } else if (!a.sample.empty()) {
        text += fmt::format("--sample {} --cases {}", fmt::join(a.sample, ","), a.cases);
    } else {
        text +=
            a.workload.empty() ? fmt::format("'{}'", fmt::join(a.words, " ")) : "--workload " + a.workload;
    }
    if (!a.only.empty()) text += " --only " + a.only;
    if (!a.bench.implementation.empty()) text += " --implementation " + a.bench.implementation;
    if (!a.bench.tuned) text += " --untuned";
    return text + fmt::format(" --seed {}", a.bench.sample.seed);
}

int bench_device(Arguments a) {
    const Device device = a.device.empty() ? pick_device("cuda") : pick_device(a.device);
    const auto begin = std::chrono::steady_clock::now();
    const auto seconds = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    std::vector<NamedCase> cases = cases_of(a);
    const std::set<std::string> done = cases_in(a.skip_done);
    std::erase_if(cases, [&](const NamedCase& c) { return done.contains(c.c.line()); });
    Rows rows(a, environment_row(device, command_of(a)));
    const DeviceInfo info = with_rates(device_info(device), card_rates(device));
    Summary summary;
    std::size_t measured = 0;
    bool wrong = false, broken = false;
    for (const NamedCase& c : cases) {
        if (broken || (a.budget_s > 0 && seconds() > a.budget_s)) break;
        const Measurement m = attempt(c, a, device, broken);
        ++measured;
        const std::string title = c.workload.empty() ? c.c.line() : c.workload + "  " + c.c.line();
        rows.add(c, m);
        summary.add(c.workload.empty() ? c.c.line() : c.workload, m);
        wrong = wrong || is_wrong(m);
        if (!a.json) std::cout << measurement_text(title, m, info) << "\n" << std::flush;
    }
    if (a.json) {
        std::cout << json_text(rows.all(), 2) << "\n";
    } else {
        std::cout << summary.text() << (a.sample.empty() ? "" : summary.distribution(a.floor));
        if (measured < cases.size())
            std::cout << fmt::format("{} cases are left: {}\n", cases.size() - measured,
                                     broken ? "the card may be unusable" : "the time is spent");
    }
    return wrong ? kWrong : kPassed;
}

int list_sample(const Arguments& a) {
    std::map<std::string, std::map<std::string, int>> taken;  // by op, then kernel
    for (const Case& c : drawn_cases(a)) {
        const std::string kernel = kernel_for(c);
        ++taken[c.contract().name()][kernel.substr(0, kernel.find(' '))];
        if (a.list) std::cout << c.line() << "\n";
    }
    if (!a.kernels) return kPassed;
    std::vector<std::vector<std::string>> rows;
    for (const auto& [op, kernels] : taken) {
        for (const auto& [kernel, count] : kernels)
            rows.push_back({op, kernel, fmt::format("{:.1f} %", 100.0 * count / a.cases)});
    }
    std::cout << fmt::format("Of {} drawn cases an op, seed {}, an H100 gives to\n", a.cases,
                             a.bench.sample.seed)
              << table(rows, "  ");
    return kPassed;
}

int bench(Arguments a) {
    // Python and the evidence keep it as a number that every JSON reader knows exactly.
    a.bench.sample.seed = a.seed.value_or(std::random_device{}());
    a.bench.tuned = !a.untuned;
    if (!a.ladder.empty()) {
        // Of a kernel that takes half a second nobody wants to know how it varies, nor what its launch costs.
        a.bench.sample.most_s = 0.5;
        a.bench.sample.eager = false;
        a.bench.reference.operations = 1e9;  // its tests compare more
    }
    if (a.list || a.kernels) return list_sample(a);
    if (!a.host) return bench_device(a);
    if (!run_host_benchmarks(a.json))
        throw Failure(kUnsupported, "this build has no Google Benchmark (libbenchmark-dev)");
    return kPassed;
}

}  // namespace

Command bench_command() {
    return {
        "bench", "Measure device time, beside the floor; --host: the host's cost of a call",
        "A case is checked before it is timed and its outputs again afterwards; a wrong result gets no "
        "time. Device\n"
        "time is that of a CUDA Graph of many calls, eager time that of calls from the host; cold "
        "operands "
        "rotate\n"
        "over three times the L2 cache. Everything is interleaved in random order; beside weft run "
        "cuBLASLt (products),\n"
        "a copy and a read of the same bytes by the card, and one side again as noise. The floor follows "
        "from the\n"
        "contract's work and the rates that the card was measured to have. Python's baselines: python -m "
        "weft.bench\n\n"
        "Examples:\n  weft bench 'rms_norm x=bf16[4096,3072] weight=bf16[3072]'\n"
        "  weft bench --workload workloads/transformer.csv --out rows.jsonl --budget-s 300\n"
        "  weft bench --workload workloads/transformer.csv --out more.jsonl --skip-done rows.jsonl\n"
        "  weft bench gemm --only llama8b\n  weft bench --host\n  weft bench --ladder hgemm\n"
        "  weft bench --sample rms_norm,gemm --cases 40      cases that no list names, drawn from the "
        "contracts\n"
        "  weft bench --sample all --cases 1000 --seed 1 --kernels\n",
        [](CommandLine& line) -> std::function<int()> {
            auto a = std::make_shared<Arguments>();
            line.add("target", &a->words, "a case line, or ops whose workload rows are measured");
            line.add("--workload", &a->workload, "a CSV file with a column 'case'");
            line.add("--ladder", &a->ladder,
                     "beside weft's own op every rung of this topic (or all), on the cases of "
                     "ladder/shapes.csv or of --workload");
            line.add("--only", &a->only, "of several rows those whose name has this in it, or of this op");
            line.add("--sample", &a->sample,
                     "measure drawn cases of these ops (or all): dtypes, sizes, strides and options as "
                     "users have them")
                .by_comma();
            line.add("--cases", &a->cases, "of a sample: how many an op").between(1, 1000000).with_default();
            line.add("--floor", &a->floor, "of a sample: against the floor, not against baselines");
            line.add("--list", &a->list, "of a sample: print the case lines and measure nothing");
            line.add("--kernels", &a->kernels,
                     "of a sample: say which kernels an H100 would run, and measure nothing");
            line.add("--implementation", &a->bench.implementation, "this one, not the first that accepts");
            line.add("--untuned", &a->untuned,
                     "of a vendor's library what a first call gets, beside what timing its candidates finds");
            line.add("--rounds", &a->bench.sample.rounds, "samples a case").between(1, 10000).with_default();
            line.add("--seed", &a->seed, "of the inputs and the order (default: a new one)");
            line.add("--against", &a->against, "of the baselines these: vendors, card, none (default: all)")
                .by_comma();
            line.add("--budget-s", &a->budget_s, "begin no case after so many seconds");
            line.add("--skip-done", &a->skip_done, "leave out the cases that this file has rows of");
            line.add("--device", &a->device, "cuda (the default); others time the host, for tests");
            line.add("--out", &a->out, "append rows of evidence to this file, one JSON object a line");
            line.add("--host", &a->host, "the host's cost of weft::run and of a prepared call");
            line.add("--json", &a->json, "print JSON");
            return [a] { return bench(*a); };
        }};
}

}  // namespace weft::cli
