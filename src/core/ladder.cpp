// The ladder's registry.
#include "core/ladder.h"

#include <map>
#include <sstream>

namespace weft::ladder {
namespace {

struct Added {
    std::string op;
    std::vector<std::pair<DeviceType, AnyImplementation>> implementations;  // one a target
};

struct Shelf {
    std::map<std::string, Added> added;
    std::map<std::string, std::string> lessons;
};
// Filled by static initialisers, read-only afterwards.
Shelf& shelf() {
    static Shelf filled;
    return filled;
}

// Made once all are added: only then is an op's reference sure to be there.
std::map<std::string, Rung, std::less<>> made() {
    std::map<std::string, Rung, std::less<>> all;
    for (const auto& [name, added] : shelf().added) {
        const OpEntry* op = find_op(added.op);
        if (op == nullptr) continue;  // a build without that op
        Rung rung{name, shelf().lessons[name], {}};
        rung.entry.contract = op->contract;
        rung.entry.reference = op->reference;
        for (const auto& [target, implementation] : added.implementations)
            rung.entry.implementations[static_cast<int>(target)] = {implementation};
        all.emplace(name, std::move(rung));
    }
    return all;
}

const std::map<std::string, Rung, std::less<>>& all_rungs() {
    static const auto all = made();
    return all;
}

}  // namespace

std::string Rung::topic() const {
    const auto begin = name.find('/') + 1;
    return name.substr(begin, name.rfind('/') - begin);
}

std::string Rung::title() const { return lesson.substr(0, lesson.find('\n')); }

std::string Rung::part(std::string_view label) const {
    std::istringstream lines(lesson);
    std::string text;
    bool inside = false;
    for (std::string line; std::getline(lines, line);) {
        const auto first = line.find_first_not_of(' ');
        if (first == 0) inside = line.starts_with(std::string(label) + " ");
        if (!inside || first == std::string::npos) continue;
        const auto begin = first == 0 ? line.find_first_not_of(' ', label.size()) : first;
        text += (text.empty() ? "" : " ") + line.substr(begin);
    }
    return text;
}

std::vector<const Rung*> rungs() {
    std::vector<const Rung*> found;
    for (const auto& [name, rung] : all_rungs()) found.push_back(&rung);
    return found;
}

const Rung* find(std::string_view name) {
    const auto it = all_rungs().find(name);
    return it == all_rungs().end() ? nullptr : &it->second;
}

Case with_entry(const OpEntry& entry, const Case& c) {
    Case own(entry);
    own.tensors = c.tensors;
    own.options = c.options;
    return own;
}

void add(const std::string& name, std::string_view op, DeviceType target, AnyImplementation implementation) {
    Added& added = shelf().added[name];
    added.op = op;
    added.implementations.emplace_back(target, std::move(implementation));
}

RegisterLessons::RegisterLessons(std::initializer_list<Lesson> lessons) {
    for (const Lesson& lesson : lessons) shelf().lessons[lesson.name] = lesson.text;
}

}  // namespace weft::ladder
