// The ladder: implementations of ops that are there to be read (ladder/<topic>/NN_name.cu). Dispatch does not know
// them. Each has an entry of its own, with its op's contract and reference, so that whatever takes an OpEntry serves
// it: cases of that entry are verified, fuzzed, explained and measured by this one implementation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/case.h"

namespace weft::ladder {

struct Rung {
    std::string name;    // "ladder/softmax/01_naive": its file, without the ending
    std::string lesson;  // the comment that its file opens with
    OpEntry entry;

    std::string topic() const;  // "softmax"
    std::string title() const;  // the first line of the lesson
    // A part of the lesson, by its label ("Idea"), as one line. Empty where there is none.
    std::string part(std::string_view label) const;
};

std::vector<const Rung*> rungs();         // by name; none where the program has no ladder
const Rung* find(std::string_view name);  // null where there is none

// The same call, of another entry of its op: run by what that one has.
Case with_entry(const OpEntry& entry, const Case& c);

// Called by static initialisers: of the rungs, and of the table that the build makes of their files.
void add(const std::string& name, std::string_view op, DeviceType target, AnyImplementation implementation);
struct Lesson {
    const char *name, *text;
};
struct RegisterLessons {
    explicit RegisterLessons(std::initializer_list<Lesson> lessons);
};

}  // namespace weft::ladder
