// Cases as users have them, drawn from contracts: what the listed workloads do not name is measured by a
// sample.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/case.h"

namespace weft {

struct DrawLimits {
    double least_bytes = 32e3;  // by the contract's count: less is the launch alone
    double most_bytes = 400e6;  // so that cold operand sets fit beside each other
    double most_flops = 2e12;
};

// `cases` of each op, one op after the other in turn, so that a run that is cut short has some of each. The
// same on every machine for the same seed. Fewer where an op's contract lets hardly any draw through.
//
// Dtypes are mixed as the contract allows and weighted by what checkpoints and frameworks do; sizes are
// log-uniform over each axis's useful range, rounded to multiples of 1, 2, 8, 64 and 256 in shares; rows are few
// and many, mostly dense and aligned, some strided or at odd addresses; options mostly at their defaults.
std::vector<Case> draw_cases(const std::vector<const OpEntry*>& ops, int cases, std::uint64_t seed,
                             const DrawLimits& limits = {});

// The kernels of this library that an H100 would be offered, best first. The emulator's list, which has the
// same entries and no vendor's, where this build has it.
const std::vector<AnyImplementation>& own_kernels(const OpEntry& op);

// The one of them that takes a case there, with its configuration; empty where none does.
std::string kernel_for(const Case& c);

}  // namespace weft
