// Guided fuzzing: marks before and after each trial decide what is kept.
#include "verify/guided.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "sites/reached.h"

namespace weft {
namespace {

using Marks = std::bitset<std::size_t{3} * sites::kMost>;

Marks marks_now() {
    Marks marks;
    for (std::size_t i = 0; i < sites::kMost; ++i) {
        const unsigned char bits = sites::reached[i];
        for (std::size_t bit = 0; bit < 3; ++bit) marks[3 * i + bit] = (bits >> bit & 1) != 0;
    }
    return marks;
}

struct Ran {
    Outcome outcome;
    Marks marks;
};

Ran run(const Trial& trial, Device device) {
    std::memset(sites::reached, 0, sizeof(sites::reached));
    const Outcome outcome = attempt_generated(trial, device);
    return {outcome, marks_now()};
}

double elements(const Case& c) {
    double sum = 0;
    for (const TensorSpec& t : c.tensors) sum += t.present ? static_cast<double>(t.span()) : 0;
    return sum;
}

// All tensors and options with every axis of one size made another.
Case resized(Case c, std::int64_t from, std::int64_t to) {
    for (TensorSpec& t : c.tensors) {
        std::replace(t.shape.begin(), t.shape.end(), from, to);
        t.stride.clear();
    }
    for (std::size_t i = 0; i < c.options.size(); ++i) {
        const bool is_size = c.contract().options()[i].axis >= 0;
        if (is_size && c.options[i] == static_cast<double>(from)) c.options[i] = static_cast<double>(to);
    }
    return c;
}

std::vector<Trial> simpler(const Trial& trial) {
    std::vector<Trial> found;
    const auto with = [&](auto change) {
        Trial t = trial;
        change(t);
        try {
            t.c.infer();  // what shares another field's memory follows it
            found.push_back(std::move(t));
        } catch (const Error&) {  // that field is gone
        }
    };
    std::set<std::int64_t, std::greater<>> sizes;
    for (const TensorSpec& t : trial.c.tensors) sizes.insert(t.shape.begin(), t.shape.end());
    for (const std::int64_t size : sizes) {
        for (const std::int64_t to : {std::int64_t{1}, size / 8, size / 2, size - size / 4, size - 1}) {
            if (to > 0 && to < size) with([&](Trial& t) { t.c = resized(t.c, size, to); });
        }
    }
    for (std::size_t i = 0; i < trial.c.tensors.size(); ++i) {
        const TensorSpec& spec = trial.c.tensors[i];
        if (!spec.present) continue;
        if (trial.c.contract().fields()[i].optional) with([&](Trial& t) { t.c.tensors[i] = {}; });
        if (spec.offset != 0) with([&](Trial& t) { t.c.tensors[i].offset = 0; });
        if (!spec.stride.empty()) with([&](Trial& t) { t.c.tensors[i].stride.clear(); });
    }
    if (trial.values != Values::usual) with([](Trial& t) { t.values = Values::usual; });
    if (trial.order != 0) with([](Trial& t) { t.order = 0; });
    return found;
}

bool is_legal(const Trial& trial, Device device) {
    try {
        trial.c.check();
        const auto names = accepting(trial.c, device);
        return trial.implementation.empty()
                   ? !names.empty()
                   : std::find(names.begin(), names.end(), trial.implementation) != names.end();
    } catch (const Error&) {
        return false;
    }
}

// The trial made smaller step by step, while it passes and reaches what it is kept for.
Trial shrink(Trial trial, const Marks& needed, Device device) {
    constexpr int kMostTries = 80;
    int tries = 0;
    for (bool smaller = true; smaller && tries < kMostTries;) {
        smaller = false;
        for (Trial& t : simpler(trial)) {
            if (!is_legal(t, device)) continue;
            if (++tries > kMostTries) break;
            const Ran ran = run(t, device);
            if (!ran.outcome.passed || (needed & ~ran.marks).any()) continue;
            trial = std::move(t);
            smaller = true;
            break;
        }
    }
    return trial;
}

struct Kept {
    Trial trial;
    Marks marks;
};

// Few of them that reach what all do: again and again the one that adds most, of equals the smallest.
std::vector<Trial> fewest(std::vector<Kept> kept) {
    std::stable_sort(kept.begin(), kept.end(),
                     [](const Kept& a, const Kept& b) { return elements(a.trial.c) < elements(b.trial.c); });
    std::vector<Trial> chosen;
    Marks reached;
    for (;;) {
        const auto best = std::max_element(kept.begin(), kept.end(), [&](const Kept& a, const Kept& b) {
            return (a.marks & ~reached).count() < (b.marks & ~reached).count();
        });
        if (best == kept.end() || (best->marks & ~reached).none()) return chosen;
        reached |= best->marks;
        chosen.push_back(best->trial);
    }
}

}  // namespace

GuidedReport fuzz_guided(const OpEntry& op, const FuzzOptions& options, const std::vector<Trial>& start) {
    GuidedReport report;
    std::vector<Kept> kept;
    Marks reached;
    const auto look_at = [&](const Trial& trial) {
        ++report.cases;
        const Ran ran = run(trial, options.device);
        if (!ran.outcome.passed) return report.failures.push_back({trial, ran.outcome.why});
        const Marks added = ran.marks & ~reached;
        if (added.none()) return;
        const Trial small = shrink(trial, added, options.device);
        kept.push_back({small, run(small, options.device).marks});
        reached |= kept.back().marks;
    };
    for (const Trial& trial : start) look_at(trial);
    TrialSource source(op, options);
    for (int i = 0; i < options.cases && static_cast<int>(report.failures.size()) < options.most_failures;
         ++i) {
        const std::optional<Trial> trial = source.next();
        if (!trial) break;
        look_at(*trial);
        if (options.progress) options.progress(i + 1);
    }
    report.reached = reached.count();
    report.corpus = fewest(std::move(kept));
    return report;
}

std::string corpus_line(const Trial& trial) {
    std::string text =
        fmt::format("{} --seed {} --values {}", trial.c.line(), trial.seed, name(trial.values));
    if (!trial.implementation.empty()) text += " --implementation " + trial.implementation;
    if (trial.order != 0) text += fmt::format(" --order {}", trial.order);
    return text;
}

Trial parse_corpus_line(const std::string& line) {
    const auto words_at = std::min(line.find(" --"), line.size());
    Trial trial{Case::parse(line.substr(0, words_at))};
    std::istringstream words(line.substr(words_at));
    for (std::string word, value; words >> word;) {
        words >> value;
        if (word == "--seed") {
            trial.seed = std::stoull(value);
        } else if (word == "--order") {
            trial.order = std::stoull(value);
        } else if (word == "--implementation") {
            trial.implementation = value;
        } else if (const auto values = parse_values(value); word == "--values" && values) {
            trial.values = *values;
        } else {
            throw Error(ErrorCode::invalid_argument, "", "",
                        fmt::format("'{} {}' is no part of a trial: {}", word, value, line));
        }
    }
    trial.c.infer();
    return trial;
}

std::vector<Trial> read_corpus(const std::string& path) {
    std::vector<Trial> trials;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        if (!line.empty() && line[0] != '#') trials.push_back(parse_corpus_line(line));
    }
    return trials;
}

}  // namespace weft
