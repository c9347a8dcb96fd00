// Drawing the elements of inputs.
#pragma once

#include "verify/random.h"
#include "weft/contract.h"

namespace weft {

// What the inputs look like; the verifier goes through several. Where values hide which element is where (constant,
// tiny), every other row is as usual.
enum class Values {
    usual,
    wide,      // magnitudes from 2^-8 to 2^8
    tiny,      // rows of subnormal squares
    constant,  // rows of one value each
    special,  // NaN, infinities and -0 among usual ones; on a device also numbers that break a rule, where that is defined
    rising,  // larger towards the end of a row and of the tensor: a maximum moves late
    ties     // halfway between neighbours of a narrow dtype, and powers of two that make sums such
};

struct Drawing {
    Values values = Values::usual;
    bool on_device = false;  // for a device, which can't check elements before it runs
};

// Fills a view of host memory by the field's Fill; `limit` is its bound in this call.
void draw_input(const Field& field, const Tensor& view, std::int64_t limit, Drawing drawing, Random random);

}  // namespace weft
