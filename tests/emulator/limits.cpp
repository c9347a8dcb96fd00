// Where what is possible ends: numbers of threads, barriers, arrivals and bytes, each at its limit and just beyond; and
// who must be there still. The emulator must find what is beyond, and take what is not.
#include "support.h"

#include "kit/ptx/barrier.cuh"
#include "kit/ptx/cluster.cuh"
#include "kit/ptx/mbarrier.cuh"

namespace weft::inline WEFT_TARGET {
namespace {
#include "same_line.h"

using test::Buffer;
using test::fault_of;
using test::kAsan;
using test::names;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

// ---- barriers of a block ----

__global__ void named_among(unsigned threads) { kit::named_barrier_sync(1, threads); }

TEST_F(Emulator, NamedBarriersAreAmongWholeWarpsOfABlock) {
    const auto among = [](unsigned threads) {
        return fault_of([&] { kit::launch("k", named_among, {.block = 1024}, Stream{}, threads); });
    };
    EXPECT_THAT(among(32), IsEmpty());
    EXPECT_THAT(among(1024), IsEmpty());
    for (const unsigned wrong : {0u, 16u, 48u, 1056u}) {
        EXPECT_THAT(among(wrong), names("k", "must be whole warps")) << wrong;
    }
}

__global__ void first_leaves() {
    if (threadIdx.x > 0) __syncthreads();
}

__global__ void two_barriers() {
    if (threadIdx.x == 0) __syncthreads();
    if (threadIdx.x == 1) __syncthreads();
}

__global__ void two_files() { threadIdx.x == 0 ? meet_in_one() : meet_in_other(); }

TEST_F(Emulator, TwoThreadsAreEnoughForADivergentBarrier) {
    const auto run = [](auto kernel) {
        return fault_of([&] { kit::launch("k", kernel, {.block = 2}, Stream{}); });
    };
    EXPECT_THAT(run(first_leaves), names("k", "after thread (0,0,0) has exited without it"));
    EXPECT_THAT(run(two_barriers),
                AllOf(names("k", "thread (0,0,0) waits at another one"), HasSubstr("thread (1,0,0)")));
    EXPECT_THAT(run(two_files), AllOf(names("k", "__syncthreads (other.cuh:7)"), HasSubstr("(one.cuh:7)")));
}

// ---- mbarriers ----

struct Many {
    kit::Mbarrier at[65];
};

__global__ void init_many(unsigned count) {
    Many& barriers = kit::block_shared<Many>();
    for (unsigned i = 0; i < count; ++i) kit::mbarrier_init(&barriers.at[i], 1);
    kit::fence_mbarrier_init();
}

TEST_F(Emulator, ABlockHasSoManyMbarriers) {
    const auto run = [](unsigned count) {
        return fault_of([&] { kit::launch("many", init_many, {.grid = 2, .block = 1}, Stream{}, count); });
    };
    EXPECT_THAT(run(64), IsEmpty());
    EXPECT_THAT(run(65), names("many", "more than 64 mbarriers"));
}

__global__ void expect_bytes(unsigned bytes) {
    kit::Mbarrier& barrier = kit::block_shared<kit::Mbarrier>();
    kit::mbarrier_init(&barrier, 1);
    kit::mbarrier_arrive_expect(&barrier, bytes);
}

__global__ void init_elsewhere(kit::Mbarrier* there) { kit::mbarrier_init(there, 1); }

__global__ void init_under_a_wait() {
    kit::Mbarrier& barrier = kit::block_shared<kit::Mbarrier>();
    if (threadIdx.x == 0) kit::mbarrier_init(&barrier, 1);
    __syncthreads();
    if (threadIdx.x == 63) kit::mbarrier_wait(&barrier, 0);
    if (threadIdx.x == 0) kit::mbarrier_init(&barrier, 1);
}

__global__ void init_between_words() {
    kit::mbarrier_init(reinterpret_cast<kit::Mbarrier*>(kit::dynamic_shared<char>() + 4), 1);
}

__global__ void init_for(unsigned arrivals) {
    kit::mbarrier_init(&kit::block_shared<kit::Mbarrier>(), arrivals);
}

TEST_F(Emulator, WhatAnMbarrierCannotBe) {
    const auto run = [](auto kernel, auto... arguments) {
        return fault_of([&] { kit::launch("k", kernel, {.block = 64}, Stream{}, arguments...); });
    };
    EXPECT_THAT(fault_of([] { kit::launch("k", expect_bytes, {.block = 1}, Stream{}, (1u << 20) - 1); }),
                names("k", "the block ends in the middle of a phase"));
    EXPECT_THAT(fault_of([] { kit::launch("k", expect_bytes, {.block = 1}, Stream{}, 1u << 20); }),
                names("k", "at most 1048575 bytes can be expected"));
    EXPECT_THAT(run(init_for, 0u), names("k", "mbarrier_init for 0 arrivals"));
    EXPECT_THAT(fault_of([] { kit::launch("k", init_for, {.block = 1}, Stream{}, (1u << 20) - 1); }),
                IsEmpty());
    EXPECT_THAT(run(init_for, 1u << 20), names("k", "mbarrier_init for 1048576 arrivals"));
    auto elsewhere = std::make_unique<kit::Mbarrier>();
    EXPECT_THAT(run(init_elsewhere, elsewhere.get()), names("k", "outside of this block's shared memory"));
    EXPECT_THAT(run(init_under_a_wait), names("k", "where a thread waits"));
    EXPECT_THAT(
        fault_of([] { kit::launch("k", init_between_words, {.block = 1, .dynamic_shared = 64}, Stream{}); }),
        names("k", "mbarrier_init: address"));
}

// ---- shared memory ----

struct Big {
    char bytes[40 * 1024];
};

__global__ void fixed_beside_dynamic() { kit::block_shared<Big>().bytes[0] = 0; }

TEST_F(Emulator, StaticAndDynamicSharedMemoryShareALimit) {
    const auto with_dynamic = [](size_t bytes) {
        return fault_of(
            [&] { kit::launch("k", fixed_beside_dynamic, {.block = 1, .dynamic_shared = bytes}, Stream{}); });
    };
    EXPECT_THAT(with_dynamic(187 * 1024), IsEmpty());
    EXPECT_THAT(with_dynamic(187 * 1024 + 1), names("k", "40960 bytes of static and 191489 of dynamic"));
}

struct Bytes {
    char at[16];
};

__global__ void write_byte(bool dynamic, int at) {
    char* bytes = kit::block_shared<Bytes>().at;
    if (dynamic) bytes = kit::dynamic_shared<char>();
    bytes[at] = 0;
}

// Next to what is there, and as far as the guards reach.
TEST_F(Emulator, OneByteOutsideOfSharedMemoryIsTooMany) {
    if (kAsan) GTEST_SKIP() << "dies there, as OutOfBoundsInSharedMemory says";
    const auto run = [](bool dynamic, int at) {
        return fault_of(
            [&] { kit::launch("k", write_byte, {.block = 1, .dynamic_shared = 16}, Stream{}, dynamic, at); });
    };
    for (const int at : {0, 15}) {
        EXPECT_THAT(run(false, at), IsEmpty());
        EXPECT_THAT(run(true, at), IsEmpty());
    }
    for (const int at : {-128, -1, 16, 16 + 127}) {
        EXPECT_THAT(run(false, at),
                    names("k", "wrote 1 bytes outside of a static shared object of 16 bytes"));
        EXPECT_THAT(run(true, at),
                    names("k", "wrote 1 bytes outside of its 16 bytes of dynamic shared memory"));
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
