// Laying out the copies.
#include "bench/rotation.h"

#include <algorithm>
#include <cmath>

namespace weft {

Rotation::Rotation(Instance& like, std::size_t sets)
    : first_(&like), memory_(like.device(), (sets - 1) * like.footprint()) {
    copies_.reserve(sets - 1);
    for (std::size_t set = 1; set < sets; ++set) {
        copies_.emplace_back(like, static_cast<char*>(memory_.data()) + (set - 1) * like.footprint());
    }
}

std::size_t Rotation::sets_for(double footprint, double each, double bytes) {
    constexpr double kMostSets = 16384, kMostMemory = 24e9;
    const double wanted = std::ceil(bytes / std::max(1.0, each));
    const double room = kMostMemory / std::max(1.0, footprint);
    return static_cast<std::size_t>(std::max(1.0, std::min({wanted, room, kMostSets})));
}

}  // namespace weft
