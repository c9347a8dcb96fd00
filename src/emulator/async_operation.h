// The inside of the asynchronous proxy: operations on their way, and the queue that performs them.
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "emulator/async_proxy.h"
#include "emulator/runtime.h"

namespace weft::emulator {

// Shared memory that an operation will still touch; from an address to one past the last.
struct Span {
    const char* first = nullptr;
    const char* end = nullptr;
    bool meets(const Span& other) const { return first < other.end && other.first < end; }
};

class AsyncOperation {
   public:
    virtual ~AsyncOperation() = default;
    // The next step; returns whether nothing is left to do.
    virtual bool perform(Runtime& runtime) = 0;

    std::vector<Span> reads, writes;
    const char* what = nullptr;
    Where where;
    Thread* issuer = nullptr;
    const void* line = nullptr;  // those of one line are performed in the order of their issue; null: of none
    bool sources_read = false, done = false;
    // [0]: what the issuers had done; [1]: what the operation has done.
    std::unique_ptr<SyncPair> sync = std::make_unique<SyncPair>();
    Thread* waiting = nullptr;
};

using Operation = std::shared_ptr<AsyncOperation>;

// What one thread has in flight.
struct InFlight {
    struct Member {
        Operation operation;
        unsigned group;
    };
    // Accumulators that belong to the tensor cores: what they hold is here, and the thread's are poisoned.
    struct Held {
        float* registers;
        std::vector<float> values;
        unsigned operations;
    };
    std::vector<Member> copies, products;  // oldest first
    unsigned copy_group = 0, product_group = 0;
    bool fenced = false;  // wgmma.fence since the last wait
    std::vector<Held> held;
    std::vector<void*> left;  // where other blocks' threads have said that they read no more
};
InFlight& in_flight(Thread& thread);
// The thread has waited for arrivals that publish nothing: what was read before them, its copies may write over.
void may_write_over(Thread& thread, void* reads);
// Takes the results of what has been performed back into registers.
void return_accumulators(Thread& thread, unsigned newest);

// While one lives, what is done counts for ThreadSanitizer as done by the operation, not by the CUDA thread
// on whose stack it happens to run.
class AsOperation {
   public:
    // `issued`: what the issuers had done, where that is not in the operation's own sync.
    AsOperation(Runtime& runtime, AsyncOperation& operation, void* issued = nullptr);
    ~AsOperation();
    AsOperation(const AsOperation&) = delete;
    AsOperation& operator=(const AsOperation&) = delete;

   private:
    [[maybe_unused]] SyncPair* sync_;
    [[maybe_unused]] void* launch_end_;
    [[maybe_unused]] void* thread_ = nullptr;
};

// While one lives, what is done counts for ThreadSanitizer as done by the asynchronous proxy, which knows of a block's
// shared memory what was fenced, and what copies into it have written; for the reads of `operation`.
class AsProxy {
   public:
    AsProxy(Runtime& runtime, const Block& block, AsyncOperation& operation);
    ~AsProxy();
    AsProxy(const AsProxy&) = delete;
    AsProxy& operator=(const AsProxy&) = delete;

   private:
    [[maybe_unused]] SyncPair* sync_;
    [[maybe_unused]] void* launch_end_;
    [[maybe_unused]] void* thread_ = nullptr;
};

class AsyncProxy {
   public:
    AsyncProxy();
    ~AsyncProxy();
    void start(Runtime& runtime);  // of a cluster
    void clear();
    // Queues it, unless it meets in shared memory what is still on its way.
    void submit(Runtime& runtime, const Operation& operation);
    // Whether an operation has to go now, of its own accord.
    bool due(Runtime& runtime) const;
    void perform_one(Runtime& runtime);
    // The first operation that still touches the shared memory of a block, or null.
    const AsyncOperation* first_in(const Block& block) const;
    WEFT_UNINSTRUMENTED bool pending() const { return count_ > 0; }

    // ThreadSanitizer's, for the next operation, and for the next that reads what was fenced.
    void* next_fiber() { return next_of(fibers_, turn_); }
    void* next_reader() { return next_of(readers_, reader_turn_); }

   private:
    std::deque<Operation> operations_;  // in the order of their issue
    size_t count_ = 0;
    // Blocks hand results over by thousands of 16-byte stores: those are found by their place, the few others in turn.
    std::unordered_map<const char*, const AsyncOperation*> chunk_stores_;
    std::vector<const AsyncOperation*> others_;
    unsigned eagerness_ = 0;  // 0: only when no thread can run; 1: at once; else one chance in so many
    static void* next_of(std::vector<void*>& fibers, size_t& turn);
    std::vector<void*> fibers_, readers_;
    size_t turn_ = 0, reader_turn_ = 0;
};

// Suspends the thread until `operation` has been performed, or has read its sources.
void wait_for(Thread& thread, AsyncOperation& operation, bool sources_only, const char* what,
              const Where& where);

// ---- shared memory as the asynchronous proxy sees it ----

// At most 16 bytes that an operation reads.
struct Chunk {
    const char* at;
    size_t bytes;
};
// Faults where what threads wrote last has not been fenced; for an operation that is issued, or about to read.
void check_visible(Runtime& runtime, const AsyncOperation& operation, const std::vector<Chunk>& chunks);
// Accesses of an operation, which the sanitizers see.
void copy_chunk(char* to, const char* from, size_t bytes);
void clear_chunk(char* to);
void read_chunks(const Chunk* chunks, size_t count);
// What an operation has written, all of its span, is visible to other operations.
void see(Runtime& runtime, const Span& span);
void poison_visible(Runtime& runtime, char* shared, size_t bytes);
// The block of the cluster whose shared memory this is; null: of none.
Block* owner_of(Runtime& runtime, const void* shared);
// The same place in another block; null where there is none.
char* place_in(Runtime& runtime, Block& to, const void* shared);

// ---- mbarriers ----

Mbarrier& mbarrier_at(Runtime& runtime, const uint64_t* address, const char* what);
void check_init_fenced(const Mbarrier& barrier, const char* what);
unsigned phase_of(const Mbarrier& barrier);
// Of an operation; `phase`: the one in which it was issued; `of_other_block`: of a thread's own store from there.
void mbarrier_complete(Runtime& runtime, Mbarrier& barrier, unsigned bytes, unsigned phase,
                       bool of_other_block = false);

}  // namespace weft::emulator
