// From words to devices, ops and cases.
#include "cli/select.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "cli/command.h"
#include "verify/fuzz.h"

namespace weft::cli {
namespace {

int edit_distance(std::string_view a, std::string_view b) {
    std::vector<int> row(b.size() + 1);
    std::iota(row.begin(), row.end(), 0);
    for (std::size_t i = 0; i < a.size(); ++i) {
        int diagonal = std::exchange(row[0], row[0] + 1);
        for (std::size_t j = 0; j < b.size(); ++j) {
            const int substituted = diagonal + (a[i] == b[j] ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
        }
    }
    return row.back();
}

std::string missing_device(DeviceType type) {
    if (type == DeviceType::emulator) {
        return "this build has no emulator: it needs Boost.Context and the CUDA headers (run ./weft setup)";
    }
    return "no CUDA device can be used here (`weft doctor` says why); try --device emulator";
}

// Narrows a selection to a rung.
void climb(Selection& selection, const std::vector<std::string>& words, const ladder::Rung& rung) {
    const std::string op = rung.entry.contract().name();
    const bool other = selection.single ? selection.single->contract().name() != op
                                        : !words.empty() && words != std::vector<std::string>{op};
    if (other) throw Failure(kUsage, fmt::format("{} is a rung of {}, and of no other op", rung.name, op));
    if (selection.single) {
        selection.single = ladder::with_entry(rung.entry, *selection.single);
    } else {
        selection.ops = {&rung.entry};
    }
}

}  // namespace

Device pick_device(const std::string& word) {
    const std::vector<Device> here = devices_here();
    if (word.empty()) return here.back();
    for (const DeviceType type : {DeviceType::cpu, DeviceType::emulator, DeviceType::cuda}) {
        if (word != name(type)) continue;
        const auto it = std::find_if(here.begin(), here.end(), [&](Device d) { return d.type == type; });
        if (it == here.end()) throw Failure(kUnsupported, missing_device(type));
        return *it;
    }
    throw Failure(kUsage, fmt::format("--device {}: expected cpu, emulator or cuda", word));
}

std::optional<Values> pick_values(const std::string& word) {
    if (word.empty() || word == "all") return std::nullopt;
    if (const auto values = parse_values(word)) return values;
    throw Failure(
        kUsage,
        fmt::format("--values {}: expected usual, wide, tiny, constant, special, rising, ties or all", word));
}

std::string suggestion(const std::string& word, const std::vector<std::string>& names) {
    std::vector<std::string> near;
    for (const std::string& name : names) {
        const bool part = word.size() >= 3 && name.find(word) != std::string::npos;
        if (part || edit_distance(word, name) <= 2) near.push_back(name);
    }
    return near.empty() ? "" : fmt::format("; did you mean {}?", fmt::join(near, " or "));
}

const OpEntry& pick_op(const std::string& name) {
    if (const OpEntry* op = find_op(name)) return *op;
    std::vector<std::string> names;
    for (const OpEntry* op : all_ops()) names.push_back(op->contract().name());
    throw Failure(kUsage,
                  fmt::format("no op is named '{}'{} (`weft list` shows all; after adding one: ./weft build)",
                              name, suggestion(name, names)));
}

bool is_rung(const std::string& implementation) { return implementation.starts_with("ladder/"); }

const ladder::Rung& pick_rung(const std::string& name) {
    if (const ladder::Rung* rung = ladder::find(name)) return *rung;
    std::vector<std::string> names;
    for (const ladder::Rung* rung : ladder::rungs()) names.push_back(rung->name);
    throw Failure(names.empty() ? kUnsupported : kUsage,
                  fmt::format("no rung is named '{}'{} ({})", name, suggestion(name, names),
                              names.empty() ? "this build has no ladder" : "`weft ladder` shows all"));
}

Selection select(const std::vector<std::string>& words, const std::string& implementation) {
    Selection selection;
    const std::string line = fmt::format("{}", fmt::join(words, " "));
    if (line.find('=') != std::string::npos) {
        pick_op(line.substr(0, line.find(' ')));  // a better message for a misspelt op
        selection.single = Case::parse(line);
    } else {
        for (const std::string& word : words) {
            if (word != "all") selection.ops.push_back(&pick_op(word));
        }
        if (selection.ops.empty()) selection.ops = all_ops();
    }
    if (is_rung(implementation)) climb(selection, words, pick_rung(implementation));
    return selection;
}

std::vector<NamedCase> workload_cases(const std::string& path, const OpEntry* op) {
    const auto files = path.empty() ? workload_files() : std::vector<std::filesystem::path>{path};
    std::vector<NamedCase> cases;
    for (const auto& file : files) {
        for (const WorkloadRow& row : read_workload(file)) {
            const bool wanted = op == nullptr || row.line.starts_with(op->contract().name() + " ");
            if (row.line.empty() || !wanted) continue;
            const Case c = Case::parse(row.line);
            cases.push_back({row.id, op == nullptr ? c : ladder::with_entry(*op, c)});
        }
    }
    return cases;
}

std::string table(const std::vector<std::vector<std::string>>& rows, const std::string& indent) {
    std::vector<std::size_t> width;
    for (const auto& row : rows) {
        width.resize(std::max(width.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
    }
    std::string text;
    for (const auto& row : rows) {
        std::string line = indent;
        for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], width[i]);
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

std::string dtypes_text(DTypeSet set) {
    std::vector<std::string_view> names;
    for (int i = 0; i < kDTypeCount; ++i) {
        if (set.contains(static_cast<DType>(i))) names.push_back(name(static_cast<DType>(i)));
    }
    return fmt::format("{}", fmt::join(names, ", "));
}

std::string option_text(const Option& option, double value) {
    switch (option.kind) {
        case Option::Kind::boolean: return value != 0 ? "true" : "false";
        case Option::Kind::choice: return option.choices[static_cast<std::size_t>(value)];
        case Option::Kind::integer: return fmt::format("{}", static_cast<std::int64_t>(value));
        case Option::Kind::real: return fmt::format("{}", static_cast<float>(value));
    }
    return {};
}

}  // namespace weft::cli
