// The order in which CUDA threads run. Plain code without the standard library's templates: ThreadSanitizer
// must not see it, and the linker might choose an instrumented copy of a template.
#include "emulator/ready_queue.h"

#include "emulator/runtime.h"

namespace weft::emulator {
namespace {

// One choice in so many ignores the ranks; 0: none does, so that a block may end before another starts.
constexpr unsigned kNoise[] = {0, 32, 1024};

}  // namespace

void ReadyQueue::reserve(unsigned threads) {
    unsigned capacity = 1;
    while (capacity < threads) capacity *= 2;
    if (ring_ && capacity <= mask_ + 1) return;
    ring_storage_.reset(new Thread*[capacity]());
    ring_ = ring_storage_.get();
    mask_ = capacity - 1;
}

WEFT_UNINSTRUMENTED uint64_t ReadyQueue::random(uint64_t bound) {
    state_ += 0x9e3779b97f4a7c15u;  // splitmix64
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % bound;
}

void ReadyQueue::start(uint64_t order, unsigned blocks, unsigned warps) {
    clear();
    ranked_ = order != 0;
    if (!ranked_) return;
    warps_ = warps;
    const unsigned style =
        static_cast<unsigned>(random(4));  // 0: fair; 1: warps; 2 and 3: blocks, then warps
    uniform_ = style == 0;
    noise_ = kNoise[random(3)];
    ranks_ = blocks * warps;
    for (unsigned i = 0; i < ranks_; ++i) rank_of_[i] = static_cast<uint16_t>(i);
    const auto shuffle = [this](uint16_t* values, unsigned number) {
        for (unsigned i = number; i > 1; --i) {
            const unsigned j = static_cast<unsigned>(random(i));
            const uint16_t value = values[i - 1];
            values[i - 1] = values[j];
            values[j] = value;
        }
    };
    if (style < 2) return shuffle(rank_of_, ranks_);
    uint16_t block_rank[kMaxCluster];
    for (unsigned i = 0; i < blocks; ++i) block_rank[i] = static_cast<uint16_t>(i);
    shuffle(block_rank, blocks);
    for (unsigned i = 0; i < blocks; ++i) {
        uint16_t* ranks = rank_of_ + size_t{i} * warps;
        for (unsigned j = 0; j < warps; ++j) ranks[j] = static_cast<uint16_t>(block_rank[i] * warps + j);
        shuffle(ranks, warps);
    }
}

WEFT_UNINSTRUMENTED void ReadyQueue::push(Thread& thread) {
    if (!ranked_) {
        ring_[(first_ + count_++) & mask_] = &thread;
        return;
    }
    ++count_;
    const unsigned rank = rank_of_[thread.block->rank * warps_ + thread.linear / kWarp];
    warp_of_rank_[rank] = &thread - thread.lane;
    ready_lanes_[rank] |= 1u << thread.lane;
    ready_ranks_[rank / 64] |= uint64_t{1} << (rank % 64);
}

WEFT_UNINSTRUMENTED void ReadyQueue::push_last(Thread& thread) {
    push(thread);
    ignore_rank_ = true;
}

WEFT_UNINSTRUMENTED Thread* ReadyQueue::pop() {
    if (count_ == 0) return nullptr;
    --count_;
    if (ranked_) return pop_ranked();
    return ring_[first_++ & mask_];
}

WEFT_UNINSTRUMENTED Thread* ReadyQueue::pop_ranked() {
    constexpr unsigned kRanks = kMaxCluster * kMaxWarps, kWords = kRanks / 64;
    unsigned start = 0;
    if (uniform_ || ignore_rank_ || (noise_ != 0 && random(noise_) == 0))
        start = static_cast<unsigned>(random(ranks_));
    ignore_rank_ = false;
    // The first rank at or after `start` that can run, around the end.
    unsigned rank = kRanks;
    for (unsigned i = 0; i <= kWords && rank == kRanks; ++i) {
        const unsigned word = (start / 64 + i) % kWords;
        uint64_t ranks = ready_ranks_[word];
        if (i == 0) ranks &= ~uint64_t{0} << (start % 64);
        if (ranks != 0) rank = word * 64 + static_cast<unsigned>(__builtin_ctzll(ranks));
    }
    uint32_t& lanes = ready_lanes_[rank];
    const unsigned turn = static_cast<unsigned>(random(kWarp));
    const uint32_t turned = turn == 0 ? lanes : lanes >> turn | lanes << (kWarp - turn);
    const unsigned lane = (static_cast<unsigned>(__builtin_ctz(turned)) + turn) % kWarp;
    lanes &= ~(1u << lane);
    if (lanes == 0) ready_ranks_[rank / 64] &= ~(uint64_t{1} << (rank % 64));
    return warp_of_rank_[rank] + lane;
}

WEFT_UNINSTRUMENTED void ReadyQueue::clear() {
    count_ = 0;
    ignore_rank_ = false;
    if (!ranked_) return;
    for (uint64_t& ranks : ready_ranks_) ranks = 0;
    for (uint32_t& lanes : ready_lanes_) lanes = 0;
}

}  // namespace weft::emulator
