// mbarriers: phases that end when the last arrival and the last byte have come.
//
// The eight bytes hold a mark, which every use looks at: a barrier that was never initialised, or was written
// over, shows, and so does a use that nothing orders after the initialisation (as a race).
#include <fmt/format.h>

#include "emulator/async_operation.h"

namespace weft::emulator {
namespace {

constexpr unsigned kMostArrivals = (1u << 20) - 1;
constexpr int64_t kMostBytes = (1 << 20) - 1;

uint64_t mark_of(const uint64_t* address) {
    return 0x6d62617272696572u ^ reinterpret_cast<uintptr_t>(address) << 16;
}

// Accesses that the sanitizers see.
__attribute__((noinline)) void write_mark(uint64_t* address) { *address = mark_of(address); }
__attribute__((noinline)) bool holds_mark(const volatile uint64_t* address) {
    return *address == mark_of(const_cast<const uint64_t*>(address));
}

// Whose arrival it is: a thread of the barrier's block, one of another block that publishes what it did, or one of
// another block that does not; or a copy's end, which is for all to see.
enum class From { own_block, other_block, other_block_silently };

// Where what comes before an arrival in a phase is published, and taken over by those who wait for it.
WEFT_UNINSTRUMENTED void* sync_of(const Mbarrier& barrier, unsigned phase, From from = From::own_block) {
    return (from == From::own_block ? barrier.sync : barrier.cluster_sync)->cell[phase & 1];
}

WEFT_UNINSTRUMENTED void publish(Mbarrier& barrier, From from) {
    if (from != From::other_block_silently) return tsan_release(sync_of(barrier, barrier.phase, from));
    barrier.arrived_silently = true;
    tsan_release(barrier.reads_sync->cell[barrier.phase & 1]);
}

// A phase that can end does, and those who wait for it go on. Returns whether somebody did.
WEFT_UNINSTRUMENTED bool settle(Runtime& runtime, Mbarrier& barrier) {
    if (barrier.pending > 0) return false;
    if (barrier.bytes < 0) {
        fault(fmt::format("{}: {} bytes of transactions more than were expected", describe(barrier),
                          -barrier.bytes));
    }
    if (barrier.bytes > 0) return false;
    if (barrier.seen < barrier.phase) {
        fault(
            fmt::format("{}: it ends, and nobody has waited for the phase before: what it guards was "
                        "released twice, or is "
                        "not waited for",
                        describe(barrier)));
    }
    ++barrier.phase;
    barrier.pending = barrier.count;
    Thread* thread = barrier.first;
    barrier.first = nullptr;
    const bool waited = thread != nullptr;
    if (waited) barrier.seen = barrier.phase;
    while (thread) {
        Thread* next = thread->next;
        runtime.make_ready(*thread);
        thread = next;
    }
    return waited;
}

WEFT_UNINSTRUMENTED void arrive(Mbarrier& barrier, unsigned bytes, From from) {
    publish(barrier, from);
    if (barrier.pending == 0) {
        fault(fmt::format("{}: an arrival too many: all {} of this phase have come", describe(barrier),
                          barrier.count));
    }
    barrier.bytes += bytes;
    if (barrier.bytes > kMostBytes) {
        fault(fmt::format("{}: at most {} bytes can be expected", describe(barrier), kMostBytes));
    }
    --barrier.pending;
    Runtime& runtime = Runtime::here();
    if (settle(runtime, barrier)) runtime.let_others_run(self());
}

}  // namespace

// As "the mbarrier at byte 64 of dynamic shared memory of block (0,0,0), phase 2: 1 of 2 arrivals and 4096
// bytes of transactions to come".
std::string describe(const Mbarrier& barrier) {
    Runtime& runtime = Runtime::here();
    const Block* block = owner_of(runtime, barrier.address);
    const char* place = reinterpret_cast<const char*>(barrier.address);
    const bool dynamic = block && block->dynamic.base && place >= block->dynamic.data &&
                         place < block->dynamic.data + block->dynamic.bytes;
    const std::string where =
        dynamic ? fmt::format("at byte {} of dynamic shared memory", place - block->dynamic.data)
                : "in static shared memory";
    return fmt::format(
        "the mbarrier {} of block {}, phase {}: {} of {} arrivals and {} bytes of transactions to come",
        where, block ? index_text(block->threads[0].block_index) : "?", barrier.phase, barrier.pending,
        barrier.count, barrier.bytes);
}

Mbarrier& mbarrier_at(Runtime& runtime, const uint64_t* address, const char* what) {
    {
        const Unobserved scope;
        for (unsigned rank = 0; rank < runtime.config->cluster; ++rank) {
            Block& block = runtime.blocks[rank];
            for (unsigned i = 0; i < block.mbarrier_count; ++i) {
                if (block.mbarriers[i].address != address) continue;
                if (holds_mark(address)) return block.mbarriers[i];
                fault(fmt::format("{}: {} was written over", what, describe(block.mbarriers[i])));
            }
        }
    }
    fault(fmt::format("{}: there is no initialised mbarrier at this address", what));
}

void mbarrier_init(uint64_t* address, unsigned arrivals) {
    check_aligned("mbarrier_init", address, 8);
    if (arrivals == 0 || arrivals > kMostArrivals) {
        fault(fmt::format("mbarrier_init for {} arrivals: 1 to {} are possible", arrivals, kMostArrivals));
    }
    write_mark(address);
    const Unobserved scope;
    Block& block = *self().block;
    if (owner_of(Runtime::here(), address) != &block) {
        fault("mbarrier_init of an address outside of this block's shared memory");
    }
    unsigned index = 0;
    while (index < block.mbarrier_count && block.mbarriers[index].address != address) ++index;
    if (index == kMaxMbarriers) fault(fmt::format("more than {} mbarriers in a block", kMaxMbarriers));
    Mbarrier& barrier = block.mbarriers[index];
    if (index == block.mbarrier_count) {
        ++block.mbarrier_count;
    } else if (barrier.first) {
        fault(fmt::format("mbarrier_init of {}, where a thread waits", describe(barrier)));
    }
    barrier = {};
    barrier.address = address;
    barrier.count = barrier.pending = arrivals;
    barrier.initialised_by = &self();
    barrier.sync = &block.syncs->mbarrier[index];
    barrier.cluster_sync = &block.syncs->cluster[index];
    barrier.reads_sync = &block.syncs->reads[index];
}

void fence_mbarrier_init() {
    const Unobserved scope;
    Block& block = *self().block;
    for (unsigned i = 0; i < block.mbarrier_count; ++i) {
        if (block.mbarriers[i].initialised_by == &self()) {
            block.mbarriers[i].init_fenced = self().init_fenced = true;
        }
    }
}

void check_init_fenced(const Mbarrier& barrier, const char* what) {
    if (barrier.init_fenced) return;
    fault(
        fmt::format("{}: no fence_mbarrier_init by the thread that initialised {}", what, describe(barrier)));
}

WEFT_UNINSTRUMENTED unsigned phase_of(const Mbarrier& barrier) { return barrier.phase; }

void mbarrier_arrive(uint64_t* address, unsigned bytes, const Where&) {
    (void)holds_mark(address);
    Mbarrier& barrier = mbarrier_at(Runtime::here(), address, "mbarrier_arrive");
    if (owner_of(Runtime::here(), address) != self().block) {
        fault("mbarrier_arrive at another block's barrier: that is mbarrier_arrive_remote");
    }
    arrive(barrier, bytes, From::own_block);
}

void mbarrier_arrive_remote(uint64_t* address, unsigned rank, bool publishes, const Where&) {
    auto* there = static_cast<uint64_t*>(cluster_map(address, rank));
    (void)holds_mark(there);
    Mbarrier& barrier = mbarrier_at(Runtime::here(), there, "mbarrier_arrive_remote");
    check_init_fenced(barrier, "mbarrier_arrive_remote");
    const bool own = there == address;
    arrive(barrier, 0, own ? From::own_block : publishes ? From::other_block : From::other_block_silently);
}

WEFT_UNINSTRUMENTED void mbarrier_wait(uint64_t* address, unsigned parity, bool cluster, const Where& where) {
    (void)holds_mark(address);
    Thread& thread = self();
    Runtime& runtime = Runtime::here();
    Mbarrier& barrier = mbarrier_at(runtime, address, "mbarrier_wait");
    while ((barrier.phase & 1) == parity) {
        thread.state = State::at_mbarrier;
        thread.what = "mbarrier_wait";
        thread.where = where;
        thread.waits_for = &barrier;
        thread.next = barrier.first;
        barrier.first = &thread;
        runtime.suspend(thread);
    }
    barrier.seen = barrier.phase;
    tsan_acquire(sync_of(barrier, parity));
    if (cluster) tsan_acquire(sync_of(barrier, parity, From::other_block));
    if (barrier.arrived_silently) may_write_over(thread, barrier.reads_sync->cell[parity]);
}

void mbarrier_complete(Runtime& runtime, Mbarrier& barrier, unsigned bytes, unsigned phase,
                       bool of_other_block) {
    publish(barrier, of_other_block ? From::other_block : From::own_block);
    const Unobserved scope;
    if (barrier.phase != phase) {
        fault(
            fmt::format("a copy of {} bytes completes at {}, but was issued in phase {}, which has ended "
                        "without it: too few "
                        "bytes were expected",
                        bytes, describe(barrier), phase));
    }
    barrier.bytes -= bytes;
    settle(runtime, barrier);
}

void check_phases(const Block& block) {
    const Unobserved scope;
    for (unsigned i = 0; i < block.mbarrier_count; ++i) {
        const Mbarrier& barrier = block.mbarriers[i];
        if (barrier.pending == barrier.count && barrier.bytes == 0) continue;
        fault(fmt::format("the block ends in the middle of a phase of {}", describe(barrier)));
    }
}

}  // namespace weft::emulator
