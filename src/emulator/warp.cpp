// Operations that all lanes of a warp take part in.
#include <fmt/format.h>

#include "emulator/runtime.h"

namespace weft::emulator {
namespace {

WEFT_UNINSTRUMENTED void complete(Runtime& runtime, Warp& warp, const Thread* last) {
    {
        const Unobserved scope;  // one lane does the work of all: no access of it is this thread's own
        if (warp.complete) warp.complete(warp.data, warp.arrived);
    }
    const uint32_t mask = warp.arrived;
    warp.arrived = 0;
    ++warp.generation;
    for (unsigned lane = 0; lane < kWarp; ++lane) {
        warp.data[lane] = nullptr;
        if ((mask >> lane & 1) != 0 && &warp.lanes[lane] != last) runtime.make_ready(warp.lanes[lane]);
    }
}

WEFT_UNINSTRUMENTED void check_same_operation(const Warp& warp, const char* what, const Where& where) {
    if (warp.what == what && warp.where.line() == where.line() && warp.where.column() == where.column())
        return;
    const Thread& other = warp.lanes[__builtin_ctz(warp.arrived)];
    fault(fmt::format("divergent warp: reaches {} ({}) while thread {} of its warp waits at {} ({})", what,
                      place(where), index_text(other.thread_index), warp.what, place(warp.where)));
}

}  // namespace

WEFT_UNINSTRUMENTED void warp_collective(const char* what, void* data, Complete complete_all,
                                         const Where& where, bool orders) {
    Thread& thread = self();
    Warp& warp = *thread.warp;
    Runtime& runtime = Runtime::here();
    if (warp.arrived != 0) {
        check_same_operation(warp, what, where);
    } else {
        warp.what = what;
        warp.where = where;
        warp.complete = complete_all;
    }
    void* sync = warp.sync->cell[warp.generation & 1];
    if (orders) tsan_release(sync);
    warp.data[thread.lane] = data;
    warp.arrived |= 1u << thread.lane;
    if (warp.arrived == warp.live) {
        complete(runtime, warp, &thread);
        if (runtime.order != 0) {
            runtime.make_ready(thread);
            runtime.suspend(thread);
        }
    } else {
        thread.state = State::at_warp;
        thread.what = what;
        thread.where = where;
        runtime.suspend(thread);
    }
    if (orders) tsan_acquire(sync);
}

// The lanes of a warpgroup wait for each other as those of a warp do, whatever the hardware does: that they
// issue the same operations is what is checked here.
WEFT_UNINSTRUMENTED void warpgroup_collective(const char* what, void* data, CompleteGroup complete_all,
                                              const Where& where) {
    Thread& thread = self();
    Runtime& runtime = Runtime::here();
    Block& block = *thread.block;
    Warpgroup& group = block.warpgroups[thread.linear / kWarpgroup];
    if ((thread.linear / kWarpgroup + 1) * kWarpgroup > block.count) {
        fault(fmt::format("{}: the block has no four warps for this warpgroup", what));
    }
    if (group.arrived != 0 && (group.what != what || group.where.line() != where.line() ||
                               group.where.column() != where.column())) {
        fault(fmt::format("divergent warpgroup: reaches {} ({}) while thread {} of it waits at {} ({})", what,
                          place(where), index_text(group.first_arrived->thread_index), group.what,
                          place(group.where)));
    }
    if (group.arrived == 0) {
        group.what = what;
        group.where = where;
        group.first_arrived = &thread;
        const Unobserved scope;
        if (!group.sync) group.sync.reset(new SyncPair[kWarpgroup / kWarp]);
    }
    tsan_release(group.sync[thread.linear % kWarpgroup / kWarp].cell[0]);
    group.data[thread.linear % kWarpgroup] = data;
    if (++group.arrived < kWarpgroup) {
        thread.state = State::at_warp;
        thread.what = what;
        thread.where = where;
        runtime.suspend(thread);
        return;
    }
    {
        const Unobserved scope;
        complete_all(group.data);
    }
    group.arrived = 0;
    Thread* first = &thread - thread.linear % kWarpgroup;
    for (unsigned i = 0; i < kWarpgroup; ++i) {
        if (&first[i] != &thread) runtime.make_ready(first[i]);
    }
    if (runtime.order != 0) {
        runtime.make_ready(thread);
        runtime.suspend(thread);
    }
}

WEFT_UNINSTRUMENTED void leave_warp(Runtime& runtime, Thread& thread) {
    Warp& warp = *thread.warp;
    warp.live &= ~(1u << thread.lane);
    if (warp.arrived != 0 && warp.arrived == warp.live) complete(runtime, warp, nullptr);
}

WEFT_UNINSTRUMENTED uint32_t live_lanes() { return self().warp->live; }

}  // namespace weft::emulator
