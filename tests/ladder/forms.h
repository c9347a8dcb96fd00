// Cases for rungs: ladder/<topic>/forms.txt has lines such as "softmax x=fp32[M,N] out=fp32[M,N]", whose letters become
// sizes.
#pragma once

#include <string>
#include <vector>

#include "core/ladder.h"
#include "verify/random.h"

namespace weft::test {

std::vector<std::string> forms_of(const ladder::Rung& rung);

// The form with a size for each letter: one for all letters if `size` is not negative, else drawn.
std::string with_sizes(const std::string& form, std::int64_t size, Random& random);

}  // namespace weft::test
