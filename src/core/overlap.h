// Do views share memory? By their elements, not by the extents that they lie in: every other head of one buffer
// does not share any with those between.
#pragma once

#include "weft/tensor.h"

namespace weft {

// Is any byte part of both? Both must have elements, and strides that are not negative.
//
// Exact, except that strides made to be intricate (more than a few thousand places to look at) count as sharing:
// the answer always comes within a millisecond or so.
bool overlap(const Tensor& a, const Tensor& b);

// Do two elements of the view lie in the same place?
bool overlaps_itself(const Tensor& t);

}  // namespace weft
