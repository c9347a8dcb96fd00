// What tests of generated cases share: drawing many of an op that computes nothing, and counting what they have.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "verify/generate.h"
#include "weft/op.h"

namespace weft::test {

// Nothing is computed: cases are only drawn.
template <class Op>
void nothing(const Op&, Oracle&) {}

inline constexpr int kCases = 3000;

inline std::vector<Case> generated(std::string_view op, int count = kCases, const GenerateLimits& limits = {},
                                   std::uint64_t seed = 1) {
    Random random(seed);
    std::vector<Case> cases;
    for (int i = 0; i < count; ++i) {
        const auto c = generate(*find_op(op), device_info(kCpu), random, limits);
        if (!c) {
            ADD_FAILURE() << "no case of " << op;
            break;
        }
        cases.push_back(*c);
    }
    return cases;
}

inline const TensorSpec& field(const Case& c, std::string_view name) {
    return c.tensors[static_cast<std::size_t>(c.contract().find_field(name))];
}

inline double option(const Case& c, std::string_view name) {
    return c.options[static_cast<std::size_t>(c.contract().find_option(name))];
}

// What the cases have, each with how many of them do.
template <class Get>
auto counted(const std::vector<Case>& cases, Get get) {
    std::map<decltype(get(cases[0])), int> found;
    for (const Case& c : cases) ++found[get(c)];
    return found;
}

template <class Map>
auto keys(const Map& map) {
    std::set<typename Map::key_type> found;
    for (const auto& [key, count] : map) found.insert(key);
    return found;
}

template <class Holds>
int cases_that(const std::vector<Case>& cases, Holds holds) {
    return static_cast<int>(std::count_if(cases.begin(), cases.end(), holds));
}

// Often enough to be met in a short run, and not always.
inline void expect_both(int count, std::size_t of, const char* what, std::size_t one_in = 50) {
    EXPECT_GE(static_cast<std::size_t>(count) * one_in, of) << what;
    EXPECT_GE((of - static_cast<std::size_t>(count)) * one_in, of) << what;
}

}  // namespace weft::test
