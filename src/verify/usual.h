// Sizes that users mostly give two axes alike, so that drawn cases reach the kernels which are made for that.
#pragma once

#include "verify/random.h"
#include "weft/axes.h"

namespace weft {

// Values are as wide as keys, in so many of a hundred cases.
inline void draw_alike(const AxisNames& axes, AxisSizes& sizes, Random& random, int percent) {
    const int keys = axes.find("head_dim"), values = axes.find("v_dim");
    if (keys >= 0 && values >= 0 && random.below(100) < percent)
        sizes.size[static_cast<std::size_t>(values)] = sizes.size[static_cast<std::size_t>(keys)];
}

// Rotary tables are mostly as long as half a head, where not all of it turns.
inline void draw_half(const AxisNames& axes, AxisSizes& sizes, Random& random) {
    const int half = axes.find("half"), head = axes.find("head_dim");
    if (half >= 0 && head >= 0 && random.below(100) < 75)
        sizes.size[static_cast<std::size_t>(half)] = sizes.size[static_cast<std::size_t>(head)] / 2;
}

}  // namespace weft
