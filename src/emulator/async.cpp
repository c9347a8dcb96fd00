// cp.async as copies that land only when they are waited for, and what __threadfence means for atomics.
#include <cstring>
#include <vector>

#include "emulator/runtime.h"

namespace weft::emulator {

struct Copies {
    struct Copy {
        void* shared;
        const void* global;
        size_t bytes, source_bytes;
        unsigned group;
    };
    std::vector<Copy> in_flight;  // oldest first
    unsigned open_group = 0;      // the one that the next commit closes
};

namespace {

// The record of a CUDA thread passes from fiber to fiber, unlike the list it points at.
WEFT_UNINSTRUMENTED Copies* copies_of(const Thread& thread) { return thread.copies; }
WEFT_UNINSTRUMENTED void attach(Thread& thread, Copies* copies) { thread.copies = copies; }

}  // namespace

void copy_async(void* shared, const void* global, size_t bytes, size_t source_bytes) {
    check_aligned("cp.async, shared side", shared, bytes);
    if (source_bytes > 0) check_aligned("cp.async, global side", global, bytes);
    Copies* copies = copies_of(self());
    if (!copies) {
        copies = new Copies;
        attach(self(), copies);
    }
    // Whoever reads too early sees poison, and what was here is lost from now on.
    std::memset(shared, Runtime::here().poison, bytes);
    copies->in_flight.push_back({shared, global, bytes, source_bytes, copies->open_group});
}

void copy_async_commit() {
    if (Copies* copies = copies_of(self())) ++copies->open_group;
}

void copy_async_wait(unsigned newest) {
    Copies* copies = copies_of(self());
    if (!copies) return;
    size_t landed = 0;
    for (; landed < copies->in_flight.size(); ++landed) {
        const Copies::Copy& copy = copies->in_flight[landed];
        if (copy.group + newest >= copies->open_group) break;
        std::memcpy(copy.shared, copy.global, copy.source_bytes);
        std::memset(static_cast<char*>(copy.shared) + copy.source_bytes, 0, copy.bytes - copy.source_bytes);
    }
    copies->in_flight.erase(copies->in_flight.begin(),
                            copies->in_flight.begin() + static_cast<ptrdiff_t>(landed));
}

WEFT_UNINSTRUMENTED void drop_copies(Thread& thread) {
    delete thread.copies;
    thread.copies = nullptr;
}

// ThreadSanitizer knows no fences. So an atomic of a thread that has fenced publishes all that the thread
// did, and a fence takes over what was published at the atomics that the thread used last.
WEFT_UNINSTRUMENTED void before_atomic([[maybe_unused]] void* address) {
#if WEFT_TSAN
    if (self().fenced) tsan_release(address);
#endif
}

WEFT_UNINSTRUMENTED void after_atomic([[maybe_unused]] void* address) {
#if WEFT_TSAN
    Thread& thread = self();
    thread.observed[thread.observations++ % std::size(thread.observed)] = address;
#endif
}

WEFT_UNINSTRUMENTED void thread_fence() {
#if WEFT_TSAN
    Thread& thread = self();
    thread.fenced = true;
    for (unsigned i = 0; i < thread.observations && i < std::size(thread.observed); ++i) {
        tsan_acquire(thread.observed[i]);
    }
    thread.observations = 0;
#endif
}

WEFT_UNINSTRUMENTED void dependency_wait() {
    Runtime::here().waited_for_dependency = true;
    tsan_acquire(self().block->syncs->start.cell[0]);
}

}  // namespace weft::emulator
