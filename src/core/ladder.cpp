// The ladder's registry.
#include "core/ladder.h"

#include <map>
#include <mutex>
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
// Filled by static initialisers, of a library that is loaded later as well; read-only afterwards.
Shelf& shelf() {
    static Shelf filled;
    return filled;
}

using Rungs = std::map<std::string, Rung, std::less<>>;

// Made when they are asked for: only then is an op's reference sure to be there. What was made stays where it is.
void make_missing(Rungs& all) {
    for (const auto& [name, added] : shelf().added) {
        const OpEntry* op = find_op(added.op);
        if (op == nullptr || all.contains(name)) continue;  // a build without that op
        Rung rung{name, shelf().lessons[name], {}};
        rung.entry.contract = op->contract;
        rung.entry.reference = op->reference;
        for (const auto& [target, implementation] : added.implementations)
            rung.entry.implementations[static_cast<int>(target)] = {implementation};
        all.emplace(name, std::move(rung));
    }
}

std::mutex& making() {
    static std::mutex lock;
    return lock;
}

// While `making` is held. Python loads the ladder's library when it is imported, which may be after a measurement has looked
// for a rung.
const Rungs& all_rungs() {
    static Rungs all;
    static std::size_t known = 0;
    if (known != shelf().added.size()) make_missing(all);
    known = shelf().added.size();
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
    const std::lock_guard guard(making());
    std::vector<const Rung*> found;
    for (const auto& [name, rung] : all_rungs()) found.push_back(&rung);
    return found;
}

const Rung* find(std::string_view name) {
    const std::lock_guard guard(making());
    const Rungs& all = all_rungs();
    const auto it = all.find(name);
    return it == all.end() ? nullptr : &it->second;
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
