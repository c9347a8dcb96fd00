// weft ladder: the kernels that are there to be read, from naive to fast.
#include "core/ladder.h"
#include "core/json_text.h"
#include "core/ladder_layouts.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/select.h"

namespace weft::cli {
namespace {

using ladder::Rung;

constexpr const char* kParts[] = {"Idea", "Change", "Prediction", "Order", "Right", "Wrong"};

struct Arguments {
    std::string word, layout;
    bool json = false;
};

nlohmann::json to_json(const Rung& rung) {
    nlohmann::json row = {{"rung", rung.name},
                          {"topic", rung.topic()},
                          {"op", rung.entry.contract().name()},
                          {"title", rung.title()}};
    for (const char* part : kParts) row[part] = rung.part(part);
    return row;
}

std::string topics_text(const std::vector<const Rung*>& rungs) {
    struct Topic {
        std::string op;
        int count = 0;
    };
    std::map<std::string, Topic> topics;
    for (const Rung* rung : rungs) {
        Topic& topic = topics[rung->topic()];
        topic.op = rung->entry.contract().name();
        ++topic.count;
    }
    std::vector<std::vector<std::string>> rows = {{"TOPIC", "OP", "RUNGS"}};
    for (const auto& [name, topic] : topics) rows.push_back({name, topic.op, fmt::format("{}", topic.count)});
    return table(rows);
}

std::string rungs_text(const std::vector<const Rung*>& rungs) {
    std::vector<std::vector<std::string>> rows;
    for (const Rung* rung : rungs) {
        const bool wrong = !rung->part("Wrong").empty(), free = !rung->part("Order").empty();
        rows.push_back({rung->name, wrong ? "wrong on purpose" : free ? "order is free" : "", rung->title()});
    }
    return table(rows);
}

int show_layout(const std::string& name) {
    if (const ladder::Layout* layout = ladder::find_layout(name)) {
        std::cout << layout->rows();
        return kPassed;
    }
    std::string known;
    std::vector<std::string> names;
    for (const ladder::Layout& layout : ladder::layouts()) {
        known += fmt::format("\n  {:<11} {}", layout.name, layout.what);
        names.push_back(layout.name);
    }
    throw Failure(names.empty() ? kUnsupported : kUsage,
                  names.empty() ? "this build has no ladder for the emulator"
                                : fmt::format("no layout is named '{}'{}; there are{}", name,
                                              suggestion(name, names), known));
}

// No word: topics. A topic: its rungs. A rung: its lesson.
int show(const Arguments& a) {
    std::vector<const Rung*> chosen = ladder::rungs();
    if (chosen.empty()) throw Failure(kUnsupported, "this build has no ladder (WEFT_LADDER, WEFT_OPS)");
    const bool one = is_rung(a.word);
    if (one) {
        chosen = {&pick_rung(a.word)};
    } else if (!a.word.empty()) {
        std::vector<std::string> topics;
        for (const Rung* rung : chosen) topics.push_back(rung->topic());
        topics.erase(std::unique(topics.begin(), topics.end()), topics.end());
        std::erase_if(chosen, [&](const Rung* rung) { return rung->topic() != a.word; });
        if (chosen.empty())
            throw Failure(kUsage, fmt::format("no topic is named '{}'{} (`weft ladder` shows all)", a.word,
                                              suggestion(a.word, topics)));
    }
    nlohmann::json rows = nlohmann::json::array();
    for (const Rung* rung : chosen) rows.push_back(to_json(*rung));
    std::cout << (a.json           ? json_text(rows, 2) + "\n"
                  : one            ? chosen.front()->lesson
                  : a.word.empty() ? topics_text(chosen)
                                   : rungs_text(chosen));
    return kPassed;
}

}  // namespace

Command ladder_command() {
    return {
        "ladder", "Kernels to be read, rung by rung from naive to fast",
        "A rung is a small file, ladder/<topic>/NN_name.cu: one idea more than the rung below it. Dispatch "
        "takes none of\n"
        "them; `--implementation` runs one. docs/learn/README.md says how to climb.\n\n"
        "Examples:\n  weft ladder                      the topics\n"
        "  weft ladder softmax              a topic's rungs\n"
        "  weft ladder ladder/softmax/03_safe_f32               what a rung teaches\n"
        "  weft verify softmax --implementation ladder/softmax/03_safe_f32\n"
        "  weft ladder --layout fragments   which lane has which element, of the kernels' own code\n",
        [](CommandLine& line) -> std::function<int()> {
            auto a = std::make_shared<Arguments>();
            line.add("topic", &a->word, "a topic, or a rung");
            line.add("--layout", &a->layout, "print the rows of a layout: banks, fragments, ring");
            line.add("--json", &a->json, "print JSON");
            return [a] { return a->layout.empty() ? show(*a) : show_layout(a->layout); };
        }};
}

}  // namespace weft::cli
