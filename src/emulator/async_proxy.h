// The asynchronous proxy: what kernels use of mbarriers, bulk copies (TMA) and wgmma, through kit/ptx.
//
// An operation is queued where it is issued and performed later: when no thread can go on, or, in a random
// order, at any time before. What it reads must have been there when it was issued, and fenced if threads
// wrote it; what it writes is poison until it is performed.
#pragma once

#include <vector>

#include "emulator/execution.h"

namespace weft::emulator {

// ---- mbarriers: eight bytes of shared memory, which hold nothing but a mark ----

void mbarrier_init(uint64_t* barrier, unsigned arrivals);
// Expects `bytes` more of transactions and arrives; `rank`: at the barrier in the same place of that block, where only
// an arrival that publishes is seen, and only by a wait of the cluster's scope.
void mbarrier_arrive(uint64_t* barrier, unsigned bytes, const Where& where);
void mbarrier_arrive_remote(uint64_t* barrier, unsigned rank, bool publishes, const Where& where);
// Until the phase of this parity has completed; `cluster`: sees what other blocks' threads published.
void mbarrier_wait(uint64_t* barrier, unsigned parity, bool cluster, const Where& where);
void fence_mbarrier_init();

// ---- the proxy fence ----

// What this thread has written to the block's shared memory becomes visible to later operations: with it what it had
// seen of others, for ThreadSanitizer, and in other builds what any thread had written so far.
void fence_proxy_async();

// ---- bulk copies ----

// At most 16 bytes of a copy: the shared chunk at `shared` bytes from the copy's first; bytes
// [first, first + bytes) of it are at `global`, the others are zero (in a load) or not written (in a store).
struct CopyPiece {
    uint32_t shared;
    uint16_t first, bytes;
    char* global;
};

// Into the blocks of `ranks` (a bit each), where it completes `size` bytes of transactions.
void bulk_load(const char* what, void* shared, std::vector<CopyPiece> pieces, unsigned size,
               uint64_t* barrier, unsigned ranks, const Where& where);
void bulk_store(const char* what, const void* shared, std::vector<CopyPiece> pieces, const Where& where);
// 16 bytes into the shared memory of block `rank`, whose barrier in the same place completes them. Of the generic
// proxy, as what threads write themselves.
void store_async(void* shared, const void* value, uint64_t* barrier, unsigned rank, const Where& where);
void bulk_commit();
// Until at most `newest` groups of this thread are in flight, or have their sources still to be read.
void bulk_wait(unsigned newest, bool sources_only, const Where& where);

// ---- wgmma ----

// The address of dynamic shared memory as instructions and descriptors hold it, and back.
uint32_t shared_window(const void* shared);

// Of a matrix in shared memory: window addresses of 16 bytes each.
using WgmmaChunks = std::vector<uint32_t>;

// What all 128 threads of a warpgroup issue together.
struct Wgmma {
    float* d;           // accumulators of this thread: `accumulators` of them, or the bits of whole numbers
    const uint32_t* a;  // this thread's registers of A, or null: then it is in shared memory
    unsigned accumulators;  // a thread
    uint64_t a_descriptor, b_descriptor;
    bool accumulate;  // else the accumulators count as zero
    bool a_by_rows;   // the chunks of A come row by row (K-major), else k by k
    // Where the operands are, in the order that `multiply` expects them; called by one thread.
    WgmmaChunks (*locate_a)(uint64_t descriptor);
    WgmmaChunks (*locate_b)(uint64_t descriptor);
    // a: the chunks of A, or the four registers of each thread in turn.
    void (*multiply)(const unsigned char* a, const unsigned char* b, float* const* d);
};
void wgmma(const char* what, const Wgmma& call, const Where& where);
void wgmma_fence();
void wgmma_commit();
void wgmma_wait(unsigned newest, const Where& where);
// Whether tensor cores keep sums of fp8 products as Hopper's do, in 13 fraction bits. Not so at first: what is computed
// exactly is held to the exact result. A kernel that promises more than the tensor cores give is tested with it.
void set_short_fp8_sums(bool on);
bool short_fp8_sums();

}  // namespace weft::emulator
