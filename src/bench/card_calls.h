// Copying, reading and doing nothing, as callables beside an op's.
#pragma once

#include <vector>

#include "bench/callable.h"
#include "weft/context.h"

namespace weft {

// "card copy" and "card read" move `bytes` in all, over memory of at least `rotated`; "card launch" is an
// empty kernel. The context must outlive them.
std::vector<Callable> card_calls(Context& context, double bytes, double rotated);

}  // namespace weft
