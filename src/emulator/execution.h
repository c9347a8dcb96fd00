// The CUDA execution model on the CPU: what kernels use through the target layer (kit/target.h, kit/ptx).
#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>

#include "emulator/emulator.h"
#include "emulator/sanitizer.h"

namespace weft::emulator {

using Where = std::source_location;

class Fiber;
struct Block;
struct Warp;
struct Copies;
struct InFlight;
struct Mbarrier;

enum class State : uint8_t {
    ready,
    at_block_barrier,
    at_named_barrier,
    at_cluster_barrier,
    at_warp,
    at_mbarrier,
    at_async,
    exited
};

// One CUDA thread.
struct Thread {
    uint3 thread_index, block_index;
    const LaunchConfig* config;
    Block* block;
    Warp* warp;
    Fiber* fiber;
    unsigned linear;  // index in the block
    unsigned lane;
    State state;
    bool started;
    bool fenced;       // has executed a __threadfence, so its atomics publish
    bool init_fenced;  // has fenced mbarriers, so its arrival at the cluster's barrier publishes them
    bool between;      // cluster_arrive and cluster_wait
    unsigned cluster_generation;  // of the cluster's barrier, when it arrived
    const char* what;             // the operation it waits at, and where that is in the source
    Where where;
    Thread* next;      // in the list of those who wait at the same barrier
    Copies* copies;    // its cp.async operations in flight, made at the first
    InFlight* flight;  // its bulk copies and wgmma operations in flight, made at the first
    const Mbarrier* waits_for;
    void* observed[4];  // the atomics it last read, for the next __threadfence
    unsigned observations;
};

// The thread that runs now. Constant initialisation spares an access the check for it.
extern WEFT_THREAD_LOCAL Thread* current_thread;

inline Thread& self() { return *current_thread; }

// Ends the launch with weft::Error (emulator_fault).
[[noreturn]] void fault(const std::string& message);                         // of the thread that runs
[[noreturn]] void fault_in_lane(unsigned lane, const std::string& message);  // of a lane of its warp

// __syncthreads: every thread of the block, at the same place in the source. Returns the number of threads
// whose `predicate` holds.
unsigned block_barrier(const Where& where, bool predicate = false);
// Barriers 1 to 15, each among `threads` threads (whole warps).
void named_barrier(unsigned id, unsigned threads, bool wait, const Where& where);
// An operation of the four warps of a warpgroup (128 threads from a multiple of 128 on), all at the same
// place: the last to arrive calls `complete` with the `data` of each. Orders no memory.
using CompleteGroup = void (*)(void* const* lanes);
void warpgroup_collective(const char* what, void* data, CompleteGroup complete, const Where& where);
// Every thread of the cluster that has not exited.
void cluster_barrier(const Where& where);
// Its two halves; the arrival orders only what fence_mbarrier_init has published.
void cluster_arrive(const Where& where);
void cluster_wait(const Where& where);

unsigned cluster_rank();
unsigned cluster_size();
// The address in block `rank` of the cluster of what `shared`, an address in this block's shared memory, is
// here.
void* cluster_map(const void* shared, unsigned rank);

// Storage of `bytes`, one for each block and `key`.
void* block_shared(const void* key, size_t bytes, size_t alignment);
void* dynamic_shared();

// An operation of all lanes of the warp that have not exited, at the same place in the source: waits for all,
// then one of them calls `complete`, which reads and writes through lanes[i] the `data` of lane i (null if
// not in `mask`). Orders memory among the lanes only if asked: a shuffle does not, __syncwarp does.
using Complete = void (*)(void* const* lanes, uint32_t mask);
void warp_collective(const char* what, void* data, Complete complete, const Where& where,
                     bool orders = false);
uint32_t live_lanes();  // those that have not exited

// An asynchronous copy of `source_bytes` <= `bytes` bytes (the rest becomes zero), made when its group is
// waited for.
void copy_async(void* shared, const void* global, size_t bytes, size_t source_bytes);
void copy_async_commit();
void copy_async_wait(unsigned newest);  // until at most `newest` groups are in flight

void thread_fence();
void before_atomic(void* address);
void after_atomic(void* address);

// Lets other threads run: for loops that wait for a value in memory.
void yield();

void dependency_wait();

// Faults unless `address` is a multiple of `alignment` bytes.
void misaligned(const char* what, const void* address, size_t alignment);
inline void check_aligned(const char* what, const void* address, size_t alignment) {
    if (reinterpret_cast<uintptr_t>(address) % alignment != 0) misaligned(what, address, alignment);
}

}  // namespace weft::emulator
