// Copies of a call's operands, so that successive calls find nothing of theirs in the caches.
#pragma once

#include <cstddef>
#include <vector>

#include "verify/instance.h"

namespace weft {

class Rotation {
   public:
    // `sets` sets of operands with the contents that `like` began with; the first is `like` itself, which
    // must outlive this.
    Rotation(Instance& like, std::size_t sets);

    std::size_t sets() const { return copies_.size() + 1; }
    Instance& operator[](std::size_t set) { return set == 0 ? *first_ : copies_[set - 1]; }

    // Sets of `footprint` bytes that together move at least `bytes` when each call moves `each`.
    static std::size_t sets_for(double footprint, double each, double bytes);

   private:
    Instance* first_;
    Buffer memory_;
    std::vector<Instance> copies_;
};

}  // namespace weft
