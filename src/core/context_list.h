// The contexts of a thread that takes calls for several devices and streams.
#pragma once

#include <list>

#include "weft/context.h"

namespace weft {

// One for each device and stream, made when it is first asked for. References stay good.
class ContextList {
   public:
    Context& of(Device device, Stream stream) {
        // A handful: a list searched from the one used last is faster than a map.
        for (auto it = contexts_.begin(); it != contexts_.end(); ++it) {
            if (it->device() == device && it->stream().handle == stream.handle) {
                contexts_.splice(contexts_.begin(), contexts_, it);
                return *it;
            }
        }
        return contexts_.emplace_front(device, stream);
    }

   private:
    std::list<Context> contexts_;
};

}  // namespace weft
