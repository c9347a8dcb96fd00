// The CUDA execution model on the CPU: what the host side uses (launches, order, poison).
//
// A launch runs the kernel to its end before it returns, on the calling OS thread, each CUDA thread on a
// fiber. Blocks run one after another (the blocks of a cluster together), so a kernel that waits for a block
// which has not started cannot end; the emulator reports it. Kernels of a programmatic dependent launch do
// not overlap either, but to the race detector whatever was there before such a launch, the host's writes too, is
// another kernel's until a thread has called dependency_wait.
//
// All state belongs to the calling OS thread.
#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace weft::emulator {

// The order in which threads and blocks run: 0 is the natural one, any other seed a random one. Results must
// not depend on it. The environment variable WEFT_EMULATOR_SEED sets the first value.
void set_order(uint64_t seed);
uint64_t order();

// Shared memory starts filled with this byte, as does the destination of a cp.async that was not waited for.
// A result that differs between two values comes from a read of something never written.
void set_poison(uint8_t byte);
uint8_t poison();

// Races that ThreadSanitizer reported in this process so far. Counted only in executables that include
// emulator/race_hook.h in one source; a launch during which one was reported throws.
unsigned race_reports();
void count_race_report();

// The limits of an SM 9.0 device, checked at every launch.
inline constexpr unsigned kMaxThreads = 1024, kMaxCluster = 8;
inline constexpr size_t kMaxShared = 227 * 1024, kMaxStaticShared = 48 * 1024;

struct LaunchConfig {
    const char* name;  // the kernel's, for messages
    dim3 grid, block;
    unsigned cluster = 1;  // blocks along x that run together
    size_t dynamic_shared = 0;
    bool dependent = false;  // launched with programmatic stream serialization
    const void* stream = nullptr;
};

// While one lives, this OS thread's launches belong to work on `stream`. A launch on another stream is a fault: nothing
// would order it with the rest of that work.
class StreamScope {
   public:
    explicit StreamScope(const void* stream);
    ~StreamScope();
    StreamScope(const StreamScope&) = delete;
    StreamScope& operator=(const StreamScope&) = delete;

   private:
    const void* before_;
    bool any_before_;
};

// Calls `kernel(arguments)` once for every CUDA thread of the grid. Throws weft::Error (emulator_fault),
// whose message names kernel, block and thread, when the kernel breaks the execution model.
void launch(const LaunchConfig& config, void (*kernel)(const void* arguments), const void* arguments);

// "kernel 'name', block (x,y,z), thread (x,y,z)", or an empty string outside of a kernel.
std::string where_now();

}  // namespace weft::emulator
