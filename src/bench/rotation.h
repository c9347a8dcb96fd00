// Copies of a call's operands, so that successive calls find nothing of theirs in the caches.
#pragma once

#include <cstddef>
#include <vector>

#include "verify/instance.h"

namespace weft {

class Rotation {
   public:
    // `sets` sets of operands with the instance's contents as they are now.
    Rotation(const Case& c, const Instance& instance, std::size_t sets);

    std::size_t sets() const { return calls_.size(); }
    const void* call(std::size_t set) const { return calls_[set].data(); }

    // Sets whose memory together is at least `bytes`.
    static std::size_t sets_for(const Case& c, const Instance& instance, double bytes);

   private:
    std::vector<Buffer> buffers_;
    std::vector<std::vector<std::max_align_t>> calls_;
};

}  // namespace weft
