// What an instrumented library has reached, and which of its mutants is chosen. In any other library nothing writes here.
#pragma once

#include <cstddef>

namespace weft::sites {

inline constexpr int kMost = 1 << 16;  // sites of one instrumented library
inline constexpr int kVariants = 2;    // mutants of a site
inline constexpr unsigned char kHere = 1, kFalse = 2, kTrue = 4;

extern int chosen;                    // from WEFT_MUTANT; negative: none
extern unsigned char reached[kMost];  // shared with the file that WEFT_REACHED names

// Whether this library is an instrumented copy.
bool instrumented();

}  // namespace weft::sites
