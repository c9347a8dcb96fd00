// Warpgroups that take turns: while one issues its products, the others do what follows theirs.
#pragma once

#include "kit/ptx/barrier.cuh"

namespace weft::inline WEFT_TARGET::kit {

// Named barriers 1 to `groups` of the block are the turns, one of each warpgroup, 128 threads that wait and 128 that give. A
// warpgroup gives as often as it waits, between begin() and end().
struct Turns {
    unsigned own, next;  // barriers, of the warpgroup that waits and of the one that gives
    bool first, last;    // in the order of turns

    // `begins`: the warpgroup that has the first turn.
    __device__ __forceinline__ Turns(int group, int groups, int begins = 0)
        : own(1 + static_cast<unsigned>(group)),
          next(group + 1 < groups ? own + 1 : 1),
          first(group == begins),
          last((group + 1) % groups == begins) {}
    __device__ __forceinline__ void wait() const { named_barrier_sync(own, 256); }
    __device__ __forceinline__ void give() const { named_barrier_arrive(next, 256); }
    // The last lets the first begin, and the first takes what the last gave in the end.
    __device__ __forceinline__ void begin() const {
        if (last) give();
    }
    __device__ __forceinline__ void end() const {
        if (first) wait();
    }
};

}  // namespace weft::inline WEFT_TARGET::kit
