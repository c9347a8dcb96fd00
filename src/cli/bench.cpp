// weft bench: device times beside the floor, and the host's cost of a call.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <fstream>

#include "bench/evidence.h"
#include "bench/floor.h"
#include "bench/host.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/select.h"

namespace weft::cli {
namespace {

struct Arguments {
    std::vector<std::string> words;
    std::string workload, device, out, only;
    MeasureOptions measure;
    bool json = false, host = false;
};

std::vector<NamedCase> cases_of(const Arguments& a) {
    std::vector<NamedCase> cases;
    if (!a.workload.empty()) {
        cases = workload_cases(a.workload);
    } else {
        const Selection selection = select(a.words);
        if (selection.single) return {{"", *selection.single}};
        if (a.words.empty()) throw Failure(kUsage, "bench wants a case line, ops, or --workload FILE");
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

std::string microseconds(const std::optional<Statistics>& s) {
    return s ? fmt::format("{:.2f}", s->median) : "-";
}

std::vector<std::string> cells(const NamedCase& c, const Measurement& m, const DeviceInfo& device) {
    const bool timed = m.cold.has_value() && m.cold->median > 0;
    return {c.workload.empty() ? c.c.line() : c.workload,
            m.implementation,
            microseconds(m.cold),
            microseconds(m.hot),
            m.floor_us > 0 ? fmt::format("{:.2f}", m.floor_us) : "-",
            timed && m.floor_us > 0 ? fmt::format("{:.0f} %", 100 * m.floor_us / m.cold->median) : "-",
            timed ? rate_text(m.work, device, m.cold->median) : "wrong: " + m.why};
}

std::vector<Measurement> measure_all(const std::vector<NamedCase>& cases, const Arguments& a, Device device) {
    std::vector<Measurement> all;
    Progress progress("bench", static_cast<std::int64_t>(cases.size()));
    for (const NamedCase& c : cases) {
        try {
            all.push_back(measure(c.c, device, a.measure));
        } catch (const Error& e) {
            if (e.code() == ErrorCode::cuda) throw;  // the device's context may be unusable
            all.emplace_back().why = e.what();
        }
        progress.at(static_cast<std::int64_t>(all.size()));
    }
    return all;
}

void write_rows(const std::string& path, const nlohmann::json& env, const std::vector<nlohmann::json>& rows) {
    std::ofstream out(path, std::ios::app);
    out << env.dump() << "\n";
    for (const auto& row : rows) out << row.dump() << "\n";
    if (!out.flush()) throw Failure(kUsage, fmt::format("{}: can't be written", path));
}

int bench_device(const Arguments& a) {
    const Device device = a.device.empty() ? pick_device("cuda") : pick_device(a.device);
    const std::vector<NamedCase> cases = cases_of(a);
    const std::vector<Measurement> measured = measure_all(cases, a, device);
    const std::string command =
        fmt::format("weft bench {}{}", a.workload.empty() ? "" : "--workload ",
                    a.workload.empty() ? fmt::format("'{}'", fmt::join(a.words, " ")) : a.workload);
    const nlohmann::json env = environment_row(device, command);
    const std::string run = random_id();
    std::vector<nlohmann::json> rows;
    std::vector<std::vector<std::string>> lines = {
        {"CASE", "IMPLEMENTATION", "COLD us", "HOT us", "FLOOR us", "OF FLOOR", "RATE (cold)"}};
    bool wrong = false;
    for (std::size_t i = 0; i < cases.size(); ++i) {
        lines.push_back(cells(cases[i], measured[i], device_info(device)));
        for (auto& row : measurement_rows(cases[i].c, measured[i], {run, env["env"], cases[i].workload}))
            rows.push_back(std::move(row));
        wrong = wrong || !measured[i].checked;
    }
    if (!a.out.empty()) write_rows(a.out, env, rows);
    if (a.json) {
        std::cout << nlohmann::json{{"env", env}, {"rows", rows}}.dump(2) << "\n";
    } else {
        std::cout
            << table(lines)
            << fmt::format(
                   "\nmedians of {} replays of a graph on {}; each result was checked before and after; "
                   "a kernel of one element takes {:.2f} us\n",
                   a.measure.rounds, device_info(device).name, launch_floor_us(device));
    }
    return wrong ? kWrong : kPassed;
}

int bench(const Arguments& a) {
    if (!a.host) return bench_device(a);
    if (!run_host_benchmarks(a.json))
        throw Failure(kUnsupported, "this build has no Google Benchmark (libbenchmark-dev)");
    return kPassed;
}

}  // namespace

Command bench_command() {
    return {"bench", "Measure device time, beside the floor; --host: the host's cost of a call",
            "A case is checked before it is timed and its outputs again afterwards; a wrong kernel gets no "
            "time. A time is\n"
            "the median over replays of a CUDA Graph of many calls, cold (operands rotate over three times "
            "the L2 cache)\n"
            "and hot (one set of operands). The floor follows from the contract's work and the card's rates. "
            "Comparisons\n"
            "with other libraries are the harness's business, not this command's.\n\n"
            "Examples:\n  weft bench 'rms_norm x=bf16[4096,3072] weight=bf16[3072]'\n"
            "  weft bench --workload workloads/transformer.csv --out evidence.jsonl\n"
            "  weft bench gemm --only llama8b\n  weft bench --host\n",
            [](CLI::App& app) -> std::function<int()> {
                auto a = std::make_shared<Arguments>();
                app.add_option("target", a->words, "a case line, or ops whose workload rows are measured");
                app.add_option("--workload", a->workload, "a CSV file with a column 'case'");
                app.add_option("--only", a->only,
                               "of several rows those whose name has this in it, or of this op");
                app.add_option("--implementation", a->measure.implementation,
                               "this one, not the first that accepts");
                app.add_option("--rounds", a->measure.rounds, "samples a case")
                    ->check(CLI::Range(1, 10000))
                    ->capture_default_str();
                app.add_option("--seed", a->measure.seed, "of the inputs")->capture_default_str();
                app.add_option("--device", a->device, "cuda (the default); others time the host, for tests");
                app.add_option("--out", a->out,
                               "append rows of evidence to this file, one JSON object a line");
                app.add_flag("--host", a->host, "the host's cost of weft::run and of a prepared call");
                app.add_flag("--json", a->json, "print JSON");
                return [a] { return bench(*a); };
            }};
}

}  // namespace weft::cli
