// The emulator's inside: threads, warps and blocks of the cluster that runs, and the queue of those ready to
// go on.
#pragma once

#include <exception>
#include <memory>
#include <vector>

#include "emulator/execution.h"
#include "emulator/fiber.h"
#include "emulator/ready_queue.h"

namespace weft::emulator {

inline constexpr unsigned kNamedBarriers = 16, kMaxSharedObjects = 64, kMaxMbarriers = 64;
inline constexpr unsigned kWarpgroup = 4 * kWarp, kMaxWarpgroups = kMaxThreads / kWarpgroup;

// A sync object has two addresses, used in turn: whoever is past a barrier may publish at the next before the
// slowest has taken over what the last one published.
struct SyncPair {
    char cell[2][8];
};

struct Barrier {
    unsigned expected = 0, arrived = 0, generation = 0, count = 0, result = 0;
    Thread* first = nullptr;  // those who wait, in the order of their arrival
    Thread* last = nullptr;
    Thread* first_arrived = nullptr;  // may have gone on, where it did not wait
    Where where;
    SyncPair* sync = nullptr;
    uint8_t warp_arrivals[kMaxWarps] = {};
};

struct Warp {
    uint32_t live = 0, arrived = 0;
    unsigned generation = 0;
    Thread* lanes = nullptr;  // lane i is lanes[i]
    void* data[kWarp] = {};
    const char* what = nullptr;
    Complete complete = nullptr;
    Where where;
    SyncPair* sync = nullptr;
};

struct Warpgroup {
    unsigned arrived = 0;
    void* data[kWarpgroup] = {};
    const char* what = nullptr;
    Where where;
    Thread* first_arrived = nullptr;
    std::unique_ptr<SyncPair[]> sync;  // of the operation that they issue, one a warp; it takes them over
};

struct Mbarrier {
    uint64_t* address = nullptr;
    unsigned count = 0, pending = 0;  // arrivals of a phase, and those still to come
    int64_t bytes = 0;                // of transactions that are expected; negative: came before
    unsigned phase = 0;               // how many have completed
    unsigned seen = 0;                // of these, up to which somebody has waited
    Thread* first = nullptr;          // those who wait
    const Thread* initialised_by = nullptr;
    bool init_fenced = false;
    // By the phase's parity: what the block's own threads and copies into it have published, and what other blocks'
    // threads have, which a wait of the cluster's scope alone takes over.
    SyncPair* sync = nullptr;
    SyncPair* cluster_sync = nullptr;
    // What threads of other blocks had read before they arrived without publishing: copies that are issued after the wait
    // may write over it, and nothing else is in any order with it.
    SyncPair* reads_sync = nullptr;
    bool arrived_silently = false;
};

// An allocation with a guarded zone on either side.
struct SharedObject {
    char* base = nullptr;  // what was allocated
    char* data = nullptr;
    size_t bytes = 0;
    char* view = nullptr;  // as the asynchronous proxy sees it; made when that first matters
};

struct Syncs {  // fresh for every block, so that nothing is ordered by what an earlier block did
    SyncPair start, block[kNamedBarriers], warp[kMaxWarps], mbarrier[kMaxMbarriers], cluster[kMaxMbarriers],
        reads[kMaxMbarriers];
    SyncPair proxy;  // what the asynchronous proxy may see: fenced by threads, or written by its own copies
};

struct Block {
    Thread* threads = nullptr;
    unsigned count = 0, exited = 0, rank = 0;
    bool started = false;
    Thread* first_exited = nullptr;
    Barrier barriers[kNamedBarriers];
    Warp warps[kMaxWarps];
    Warpgroup warpgroups[kMaxWarpgroups];
    Mbarrier mbarriers[kMaxMbarriers];
    unsigned mbarrier_count = 0;
    SharedObject dynamic, objects[kMaxSharedObjects];
    Syncs* syncs = nullptr;
};

// The static shared objects of a kernel, in the order of their first use by any block.
struct SharedKey {
    const void* key;
    size_t bytes, alignment;
};

class AsyncProxy;

class Runtime {
   public:
    Runtime();
    ~Runtime();
    static Runtime& here();  // this OS thread's

    void launch(const LaunchConfig& config, void (*kernel)(const void*), const void* arguments);

    // For the thread that runs.
    void suspend(Thread& thread);  // until made ready; `state`, `what` and `where` say why
    void make_ready(Thread& thread);
    void release_all(Barrier& barrier);
    void check_exit(Thread& thread);
    void check_barriers(const Block& block);
    void let_others_run(Thread& thread);  // those that are ready; in a random order maybe none
    void yield(Thread& thread);
    WEFT_UNINSTRUMENTED uint64_t random(uint64_t bound) { return ready_.random(bound); }
    void fail(std::exception_ptr failure);
    std::string describe(const Thread& thread) const;
    [[noreturn]] void raise(const Thread& thread, const std::string& message) const;

    uint64_t order = 0;
    uint8_t poison = 0xff;
    bool short_fp8_sums = false;
    const void* stream = nullptr;  // of the work that launches belong to, where `any_stream` is not set
    bool any_stream = true;

    // Of the launch that runs.
    LaunchConfig config_storage{};
    const LaunchConfig* config = nullptr;
    Block* blocks = nullptr;  // of the cluster
    unsigned cluster_live = 0;
    Barrier cluster_barrier;
    SharedKey shared_keys[kMaxSharedObjects];
    unsigned shared_key_count = 0;
    size_t static_bytes = 0;
    bool waited_for_dependency = false;
    unsigned idle_yields = 0;
    std::unique_ptr<AsyncProxy> async;
    void* launch_end = nullptr;

   private:
    static Runtime& make();
    static void run_fiber(Fiber& self);
    void run_thread(Thread& thread);
    void prepare(unsigned fibers);
    void run_cluster(uint3 first_block);
    void set_up(Thread& thread, Block& block, unsigned linear, uint3 block_index);
    void set_up(Block& block, unsigned rank);
    void run_until_idle();
    void check_end();
    void abandon();
    void report_deadlock();
    void name_fibers();
    void resume(Fiber& from, Thread* next);
    Thread* next_thread();

    std::vector<std::unique_ptr<Fiber>> fibers_;
    std::unique_ptr<Block[]> block_storage_;
    std::unique_ptr<Thread[]> thread_storage_;
    Thread* threads_ = nullptr;
    ReadyQueue ready_;
    unsigned thread_capacity_ = 0, thread_count_ = 0;
    Fiber main_;
    void (*kernel_)(const void*) = nullptr;
    const void* arguments_ = nullptr;
    std::exception_ptr failure_;
    bool failed_ = false, abandoned_ = false;
    uint64_t sequence_ = 0;  // clusters run by this OS thread
};

// Thrown through the kernel of a thread that must stop because another one failed.
struct Abandoned {};

// shared_memory.cpp
void set_up_shared(Runtime& runtime, Block& block);
void start_shared(Runtime& runtime, Block& block);
void check_guards(Runtime& runtime, Block& block);
void retire_shared(Runtime& runtime, Block& block, bool last_use);
// launch.cpp, report.cpp
void check_limits(const LaunchConfig& config);
void watch_sanitizers();
std::string place(const Where& where);       // "file:line"
std::string index_text(const uint3& index);  // "(x,y,z)"
// warp.cpp
void leave_warp(Runtime& runtime, Thread& thread);
// async.cpp
void drop_copies(Thread& thread);
// bulk_copy.cpp
void drop_flight(Thread& thread);
void check_flight(const Thread& thread);  // at its end
// async_proxy.cpp
void check_no_operation(Runtime& runtime, const Block& block);
// mbarrier.cpp
void check_phases(const Block& block);  // at its end
std::string describe(const Mbarrier& barrier);

}  // namespace weft::emulator
