// Drawing the elements of inputs.
#pragma once

#include "verify/random.h"
#include "weft/contract.h"

namespace weft {

// What the inputs look like; the verifier goes through several.
enum class Values {
    usual,
    wide,
    tiny,
    constant,
    special
};  // special: NaN, infinities and -0 among usual ones

// Fills a view of host memory by the field's Fill; `limit` is its bound in this call.
void draw_input(const Field& field, const Tensor& view, std::int64_t limit, Values values, Random random);

}  // namespace weft
