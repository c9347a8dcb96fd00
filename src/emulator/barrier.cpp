// Barriers of a block and of a cluster, and what the exit of a thread means to them.
#include <fmt/format.h>

#include "emulator/runtime.h"

namespace weft::emulator {
namespace {

WEFT_UNINSTRUMENTED bool same_place(const Where& a, const Where& b) {
    if (a.line() != b.line()) return false;
    const char *x = a.file_name(), *y = b.file_name();
    while (*x && *x == *y) ++x, ++y;
    return *x == *y;
}

WEFT_UNINSTRUMENTED void wait_at(Runtime& runtime, Barrier& barrier, Thread& thread, State state,
                                 const char* what, const Where& where) {
    thread.state = state;
    thread.what = what;
    thread.where = where;
    thread.next = nullptr;
    (barrier.last ? barrier.last->next : barrier.first) = &thread;
    barrier.last = &thread;
    runtime.suspend(thread);
}

// Arrives, and waits unless it is the last, or `state` is ready: then it only arrives.
WEFT_UNINSTRUMENTED void arrive(Runtime& runtime, Barrier& barrier, Thread& thread, State state,
                                const char* what, const Where& where, bool publishes = true) {
    void* sync = barrier.sync->cell[barrier.generation & 1];
    if (publishes) tsan_release(sync);
    if (barrier.arrived++ == 0) {
        barrier.where = where;
        barrier.first_arrived = &thread;
    }
    const bool waits = state != State::ready;
    if (barrier.arrived == barrier.expected) {
        runtime.release_all(barrier);
        // Who only arrives does not go on before those who waited for it; in a random order the last one to wait does not
        // always either.
        if (!waits || runtime.order != 0) runtime.let_others_run(thread);
    } else if (waits) {
        wait_at(runtime, barrier, thread, state, what, where);
    }
    if (waits) tsan_acquire(sync);
}

}  // namespace

WEFT_UNINSTRUMENTED void Runtime::release_all(Barrier& barrier) {
    Thread* thread = barrier.first;
    barrier.first = barrier.last = barrier.first_arrived = nullptr;
    barrier.result = barrier.count;
    barrier.arrived = barrier.count = 0;
    ++barrier.generation;
    while (thread) {
        Thread* next = thread->next;
        make_ready(*thread);
        thread = next;
    }
}

WEFT_UNINSTRUMENTED unsigned block_barrier(const Where& where, bool predicate) {
    Thread& thread = self();
    Block& block = *thread.block;
    Barrier& barrier = block.barriers[0];
    if (block.exited > 0) {
        fault(
            fmt::format("divergent barrier: reaches __syncthreads ({}) after thread {} has exited without it",
                        place(where), index_text(block.first_exited->thread_index)));
    }
    if (barrier.arrived > 0 && !same_place(barrier.where, where)) {
        fault(fmt::format(
            "divergent barrier: reaches __syncthreads ({}) while thread {} waits at another one ({})",
            place(where), index_text(barrier.first_arrived->thread_index), place(barrier.where)));
    }
    barrier.count += predicate;
    arrive(Runtime::here(), barrier, thread, State::at_block_barrier, "__syncthreads", where);
    return barrier.result;
}

WEFT_UNINSTRUMENTED void named_barrier(unsigned id, unsigned threads, bool wait, const Where& where) {
    Thread& thread = self();
    Block& block = *thread.block;
    if (id == 0 || id >= kNamedBarriers) fault(fmt::format("named barrier {}: must be 1 to 15", id));
    if (threads == 0 || threads % kWarp != 0 || threads > kMaxThreads) {
        fault(fmt::format("named barrier {} among {} threads: must be whole warps", id, threads));
    }
    Barrier& barrier = block.barriers[id];
    if (barrier.arrived > 0 && barrier.expected != threads) {
        fault(fmt::format("named barrier {} among {} threads, but thread {} named {}", id, threads,
                          index_text(barrier.first_arrived->thread_index), barrier.expected));
    }
    barrier.expected = threads;
    ++barrier.warp_arrivals[thread.linear / kWarp];
    if (barrier.arrived + 1 == threads) {
        for (uint8_t& count : barrier.warp_arrivals) {
            if (count % kWarp != 0) {
                fault(fmt::format(
                    "named barrier {} ({}): {} arrivals from one warp; whole warps must arrive, once each",
                    id, place(where), unsigned{count}));
            }
            count = 0;
        }
    }
    arrive(Runtime::here(), barrier, thread, wait ? State::at_named_barrier : State::ready, "named barrier",
           where);
}

WEFT_UNINSTRUMENTED void cluster_barrier(const Where& where) {
    if (self().between) fault("cluster_sync between cluster_arrive and cluster_wait");
    Runtime& runtime = Runtime::here();
    runtime.cluster_barrier.expected = runtime.cluster_live;
    arrive(runtime, runtime.cluster_barrier, self(), State::at_cluster_barrier, "cluster_sync", where);
}

WEFT_UNINSTRUMENTED void cluster_arrive(const Where& where) {
    Runtime& runtime = Runtime::here();
    Thread& thread = self();
    if (thread.between) fault("a second cluster_arrive without cluster_wait");
    thread.between = true;
    thread.cluster_generation = runtime.cluster_barrier.generation;
    runtime.cluster_barrier.expected = runtime.cluster_live;
    arrive(runtime, runtime.cluster_barrier, thread, State::ready, "cluster_arrive", where,
           thread.init_fenced);
}

WEFT_UNINSTRUMENTED void cluster_wait(const Where& where) {
    Runtime& runtime = Runtime::here();
    Thread& thread = self();
    Barrier& barrier = runtime.cluster_barrier;
    if (!thread.between) fault("cluster_wait without cluster_arrive");
    thread.between = false;
    if (barrier.generation == thread.cluster_generation) {
        wait_at(runtime, barrier, thread, State::at_cluster_barrier, "cluster_wait", where);
    }
    tsan_acquire(barrier.sync->cell[thread.cluster_generation & 1]);
}

// At the block's end.
WEFT_UNINSTRUMENTED void Runtime::check_barriers(const Block& block) {
    for (unsigned id = 1; id < kNamedBarriers; ++id) {
        const Barrier& barrier = block.barriers[id];
        if (barrier.arrived == 0) continue;
        fault(fmt::format(
            "the block ends with named barrier {} half arrived at: {} of {} threads, the first of them at {}",
            id, barrier.arrived, barrier.expected, place(barrier.where)));
    }
    check_phases(block);
}

// What waits for a thread that has left: a block's barrier is broken, a warp and a cluster go on without it.
WEFT_UNINSTRUMENTED void Runtime::check_exit(Thread& thread) {
    Block& block = *thread.block;
    Barrier& barrier = block.barriers[0];
    if (block.exited++ == 0) block.first_exited = &thread;
    if (barrier.arrived > 0) {
        fault(fmt::format(
            "divergent barrier: exits while {} threads wait at __syncthreads ({}), the first of them {}",
            barrier.arrived, place(barrier.where), index_text(barrier.first_arrived->thread_index)));
    }
    if (thread.between) fault("exits between cluster_arrive and cluster_wait");
    leave_warp(*this, thread);
    check_flight(thread);
    --cluster_live;
    cluster_barrier.expected = cluster_live;
    if (cluster_barrier.arrived > 0 && cluster_barrier.arrived == cluster_live) release_all(cluster_barrier);
    if (block.exited == block.count) {
        check_no_operation(*this, block);
        check_barriers(block);
        check_guards(*this, block);
        retire_shared(*this, block, cluster_live == 0);
    }
}

}  // namespace weft::emulator
