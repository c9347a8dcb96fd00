// Work recorded once and replayed with one launch: a CUDA Graph, or on the CPU and in the emulator the calls
// again.
#pragma once

#include <functional>
#include <memory>

#include "weft/context.h"

namespace weft {

// Records what `work` queues on the context's stream. Run the same work once before: scratch must have its
// size, and a vendor's plan that needs any is chosen outside of captures only. The context must have a stream of its own on a GPU (not the default
// stream).
class Graph {
   public:
    Graph(Context& context, std::function<void()> work);

    void replay() const;  // queues it on the context's stream
    int launches() const {
        return launches_;
    }  // kernels and copies in the graph; 0 where there is no CUDA Graph

   private:
    Context* context_;
    std::function<void()> work_;
    std::shared_ptr<void> executable_;
    int launches_ = 0;
};

// A stream of its own on a GPU; nothing elsewhere.
class OwnedStream {
   public:
    explicit OwnedStream(Device device);
    Stream get() const { return {handle_.get()}; }

   private:
    std::shared_ptr<void> handle_;
};

// Microseconds of device time that `work` takes on the context's stream, between two events; host time
// elsewhere. `during` is called once the work is queued, while a GPU still runs it.
double time_us(Context& context, const std::function<void()>& work, const std::function<void()>& during = {});

}  // namespace weft
