// A stack that can be switched to: what a CUDA thread runs on.
#pragma once

#include <cstddef>

#include "emulator/sanitizer.h"

namespace weft::emulator {

// A new fiber of ThreadSanitizer's. It knows nothing of what was done before: it is made on one that is as old as this OS
// thread's first, since its maker's knowledge would pass to it. Null in other builds.
void* make_tsan_fiber();

class Fiber {
   public:
    using Entry = void (*)(Fiber& self);

    Fiber();                      // stands for the stack of the calling OS thread
    explicit Fiber(Entry entry);  // `entry` starts at the first switch and never returns
    ~Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    // Runs `to` until something switches back to `from`, which is the fiber that calls this.
    static void switch_between(Fiber& from, Fiber& to);

    void set_name(const char* name);  // shown in ThreadSanitizer's reports

   private:
    struct Start;

    void* context_ = nullptr;
    void* stack_ = nullptr;  // lowest address of the mapping, null for the OS thread's own stack
    Entry entry_ = nullptr;
    const void* bottom_ = nullptr;
    size_t size_ = 0;
    void* fake_stack_ = nullptr;
    void* tsan_ = nullptr;
};

}  // namespace weft::emulator
