// What a test tries of lists of choices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/ops/emulated.h"

#if WEFT_HAS_EMULATOR
namespace weft::test {

using Words = std::vector<std::string>;

// All combinations, the first list's choices changing first. A sanitizer gets so many of them that each choice is in one:
// who accesses what depends on each by itself.
template <class... Choice>
std::vector<std::tuple<Choice...>> combined(const std::vector<Choice>&... lists) {
    const std::size_t count = kSanitized ? std::max({lists.size()...}) : (lists.size() * ...);
    std::vector<std::tuple<Choice...>> tried;
    for (std::size_t i = 0; i < count; ++i) {
        std::size_t rest = i;
        const auto next = [&](std::size_t size) {
            return (kSanitized ? i : std::exchange(rest, rest / size)) % size;
        };
        tried.push_back({lists[next(lists.size())]...});
    }
    return tried;
}

}  // namespace weft::test
#endif
