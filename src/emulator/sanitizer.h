// What the emulator tells AddressSanitizer and ThreadSanitizer; nothing in a build without them.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#define WEFT_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define WEFT_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__)
#define WEFT_TSAN 1
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#else
#define WEFT_TSAN 0
#endif

// The scheduler touches what belongs to every CUDA thread: to ThreadSanitizer it has to be invisible.
#define WEFT_UNINSTRUMENTED __attribute__((no_sanitize("thread", "address")))

namespace weft::emulator {

// The storage of what every access of a kernel goes through. Under a sanitizer the library is there from the
// program's start, and one instruction finds it; otherwise Python may load the library late, when there is no
// room left for memory of that kind.
#if WEFT_ASAN || WEFT_TSAN
#define WEFT_THREAD_LOCAL constinit thread_local __attribute__((tls_model("initial-exec")))
#else
#define WEFT_THREAD_LOCAL constinit thread_local
#endif

// A CUDA thread publishes what it did (release) at `sync`, or takes over what others published there
// (acquire).
WEFT_UNINSTRUMENTED inline void tsan_release([[maybe_unused]] void* sync) {
#if WEFT_TSAN
    __tsan_release(sync);
#endif
}

WEFT_UNINSTRUMENTED inline void tsan_acquire([[maybe_unused]] void* sync) {
#if WEFT_TSAN
    __tsan_acquire(sync);
#endif
}

// While one lives, ThreadSanitizer does not look at the memory accesses of this CUDA thread. Memory allocated
// meanwhile starts without a history, which is what makes the shared memory of each block new.
class Unobserved {
   public:
    WEFT_UNINSTRUMENTED Unobserved() {
#if WEFT_TSAN
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
    }
    WEFT_UNINSTRUMENTED ~Unobserved() {
#if WEFT_TSAN
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
    }
    Unobserved(const Unobserved&) = delete;
    Unobserved& operator=(const Unobserved&) = delete;
};

}  // namespace weft::emulator
