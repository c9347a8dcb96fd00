// Layouts of the ladder's kernels, worked out by running their own code: what docs/learn draws.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace weft::ladder {

struct Layout {
    std::string name, what;
    std::function<std::string()> rows;  // comma-separated, under a line of names
};

std::vector<Layout> layouts();                     // none where the program has no ladder for the emulator
const Layout* find_layout(std::string_view name);  // null where there is none

// Called by a static initialiser.
struct RegisterLayouts {
    explicit RegisterLayouts(std::initializer_list<Layout> layouts);
};

}  // namespace weft::ladder
