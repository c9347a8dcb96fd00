// The CUDA threads that can run, and which of them is next.
#pragma once

#include <memory>

#include "emulator/execution.h"

namespace weft::emulator {

inline constexpr unsigned kWarp = 32, kMaxWarps = kMaxThreads / kWarp;

// Order 0 is first in, first out. Any other seed is an adversary: a random order in which every thread gets
// its fair share would almost never let one warp or block run far ahead of the others, which is where missing
// synchronisation shows. So warps (or whole blocks) have random ranks, and mostly the first that can run
// does.
class ReadyQueue {
   public:
    // For clusters of up to `threads` threads.
    void reserve(unsigned threads);
    // Empties the queue and draws new ranks for `blocks` blocks of `warps` warps.
    void start(uint64_t order, unsigned blocks, unsigned warps);
    void seed(uint64_t value) { state_ = value; }
    uint64_t random(uint64_t bound);

    void push(Thread& thread);
    void push_last(Thread& thread);  // of a thread that yields: the next one is not chosen by its rank
    Thread* pop();                   // null if there is none
    void clear();

   private:
    Thread* pop_ranked();

    // Order 0: a ring.
    std::unique_ptr<Thread*[]> ring_storage_;
    Thread** ring_ = nullptr;
    unsigned first_ = 0, mask_ = 0, count_ = 0;

    // Other orders: which ranks, and of each which lanes, can run.
    bool ranked_ = false, uniform_ = false, ignore_rank_ = false;
    unsigned noise_ = 0;
    unsigned warps_ = 0, ranks_ = 0;  // warps of a block and of the cluster
    uint64_t state_ = 0;
    uint64_t ready_ranks_[kMaxCluster * kMaxWarps / 64] = {};
    uint16_t rank_of_[kMaxCluster * kMaxWarps] = {};
    uint32_t ready_lanes_[kMaxCluster * kMaxWarps] = {};  // by rank
    Thread* warp_of_rank_[kMaxCluster * kMaxWarps] = {};  // its lane 0
};

}  // namespace weft::emulator
