// What comes to be known of others by mistake: planted faults that are races only because a barrier, an operation or a
// wait says no more than it has to. A detector that takes over too much is silent of them.
#include "support.h"

#include <memory>

#include "kit/ptx/barrier.cuh"
#include "kit/ptx/cluster.cuh"
#include "kit/ptx/mbarrier.cuh"
#include "kit/ptx/proxy_fence.cuh"
#include "kit/ptx/tma.cuh"
#include "kit/ptx/wgmma.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using test::Fault;
using test::fault_of;
using test::First;
using test::in_several_orders;
using test::kNone;
using test::kPlanted;
using test::kTsan;
using test::names;
using test::races;
using testing::ElementsAre;
using testing::IsEmpty;

// ---- between two meetings of the same threads ----

enum class Meet { warp, block, named, cluster, mbarrier };

template <Meet M>
__device__ void meet(kit::Mbarrier* barrier, unsigned phase) {
    if (M == Meet::warp) __syncwarp();
    if (M == Meet::block) __syncthreads();
    if (M == Meet::named) kit::named_barrier_sync(1, blockDim.x);
    if (M == Meet::cluster) kit::cluster_sync();
    if (M != Meet::mbarrier) return;
    kit::mbarrier_arrive(barrier);
    kit::mbarrier_wait(barrier, phase & 1);
}

// One thread writes between two meetings, another reads behind the second, or with the fault between them as well: who
// is past the first is ahead of those who are not, and what it does there is not theirs to know.
template <Meet M, unsigned kWriter, unsigned kFirst, Fault F>
__global__ void write_between(int* out) {
    kit::Mbarrier& barrier = kit::block_shared<kit::Mbarrier>();
    First& own = kit::block_shared<First>();
    if (threadIdx.x == 0) {
        kit::mbarrier_init(&barrier, blockDim.x);
        kit::fence_mbarrier_init();
    }
    if (M != Meet::warp) kit::cluster_sync();
    int& value = kit::cluster_map(&own, 0)->value;
    const unsigned one = threadIdx.x == 0 ? kit::cluster_rank() : M == Meet::cluster ? 2 : threadIdx.x;
    for (unsigned phase = 0; phase <= kFirst; ++phase) meet<M>(&barrier, phase);
    if (one == kWriter) value = 1;
    if (F == kNone) meet<M>(&barrier, kFirst + 1);
    if (one == 1 - kWriter) *out = value;
    if (F == kPlanted) meet<M>(&barrier, kFirst + 1);
    kit::cluster_sync();
}

template <Meet M, unsigned kWriter, unsigned kFirst>
void expect_race_between() {
    SCOPED_TRACE(testing::Message() << "meeting " << static_cast<int>(M) << ", writer " << kWriter << ", "
                                    << kFirst << " meetings before");
    const unsigned cluster = M == Meet::cluster ? 2 : 1;
    const kit::LaunchShape shape{.grid = cluster, .block = M == Meet::warp ? 32 : 64, .cluster = cluster};
    const auto run = [&](auto kernel) {
        int out = 0;
        return fault_of([&] { kit::launch("between", kernel, shape, Stream{}, &out); });
    };
    EXPECT_THAT(run(write_between<M, kWriter, kFirst, kNone>), IsEmpty());
    EXPECT_THAT(run(write_between<M, kWriter, kFirst, kPlanted>), races("between"));
}

template <Meet M>
void expect_races_between() {
    expect_race_between<M, 0, 0>();
    expect_race_between<M, 1, 0>();
    expect_race_between<M, 0, 1>();
    expect_race_between<M, 1, 1>();
}

TEST_F(Emulator, AWriteBetweenTwoMeetingsIsNotKnownAtTheFirst) {
    ONLY_IN(kTsan);
    expect_races_between<Meet::warp>();
    expect_races_between<Meet::block>();
    expect_races_between<Meet::named>();
    expect_races_between<Meet::cluster>();
    expect_races_between<Meet::mbarrier>();
}

// ---- where others meet ----

// One cluster writes and meets, the other meets and reads.
template <Meet M>
__global__ void meet_apart(int* data, int* out) {
    kit::Mbarrier& barrier = kit::block_shared<kit::Mbarrier>();
    const bool writes = blockIdx.x < kit::cluster_size();
    if (threadIdx.x == 0 && M == Meet::mbarrier) kit::mbarrier_init(&barrier, blockDim.x);
    if (M == Meet::mbarrier) __syncthreads();
    if (writes && threadIdx.x == 0 && kit::cluster_rank() == 0) *data = 1;
    meet<M>(&barrier, 0);
    if (!writes && threadIdx.x == 0 && kit::cluster_rank() == 0) *out = *data;
}

template <Meet M>
void expect_race_apart() {
    const unsigned cluster = M == Meet::cluster ? 2 : 1;
    const auto data = std::make_unique<int>(0);
    int out = 0;
    EXPECT_THAT(fault_of([&] {
                    kit::launch("apart", meet_apart<M>,
                                {.grid = 2 * cluster, .block = 64, .cluster = cluster}, Stream{}, data.get(),
                                &out);
                }),
                races("apart"))
        << static_cast<int>(M);
}

TEST_F(Emulator, WhatOneClusterMeetsForIsNotKnownToTheNext) {
    ONLY_IN(kTsan);
    expect_race_apart<Meet::warp>();
    expect_race_apart<Meet::block>();
    expect_race_apart<Meet::named>();
    expect_race_apart<Meet::cluster>();
    expect_race_apart<Meet::mbarrier>();
}

struct Two {
    kit::Mbarrier at[2];
};

// The writer arrives at the first barrier; the reader waits for it, or with the fault for another's arrival at the second.
template <Fault F>
__global__ void wait_at_the_other(int* out) {
    Two& barriers = kit::block_shared<Two>();
    First& first = kit::block_shared<First>();
    if (threadIdx.x == 0) {
        kit::mbarrier_init(&barriers.at[0], 1);
        kit::mbarrier_init(&barriers.at[1], 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        first.value = 1;
        kit::mbarrier_arrive(&barriers.at[0]);
    }
    if (threadIdx.x == 32) kit::mbarrier_arrive(&barriers.at[1]);
    if (threadIdx.x == 64) {
        kit::mbarrier_wait(&barriers.at[F == kNone ? 0 : 1], 0);
        *out = first.value;
    }
}

TEST_F(Emulator, AnMbarrierSaysNothingOfAnother) {
    ONLY_IN(kTsan);
    const auto run = [](auto kernel) {
        int out = 0;
        return fault_of([&] { kit::launch("other", kernel, {.block = 96}, Stream{}, &out); });
    };
    EXPECT_THAT(run(wait_at_the_other<kNone>), IsEmpty());
    EXPECT_THAT(run(wait_at_the_other<kPlanted>), races("other"));
}

// ---- what an operation reads ----

// A warp writes once more what is there already, one word of it, while the copy of the other reads.
template <int kWord, Fault F>
__global__ void write_beside(int* out) {
    int* values = reinterpret_cast<int*>(kit::align_shared<128>(kit::dynamic_shared<char>()));
    if (threadIdx.x == 0) {
        for (int i = 0; i < 4; ++i) values[i] = i;
        kit::fence_proxy_async();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        kit::bulk_store(out, values, 16);
        kit::bulk_commit();
        kit::bulk_wait_sources<0>();
    }
    if (F == kNone) __syncthreads();
    if (threadIdx.x == 32) values[kWord] = kWord;
}

template <int kWord>
void expect_race_at_word() {
    const auto run = [](auto kernel) {
        alignas(16) int out[4] = {};
        return fault_of(
            [&] { kit::launch("beside", kernel, {.block = 64, .dynamic_shared = 256}, Stream{}, &out[0]); });
    };
    EXPECT_THAT(run(write_beside<kWord, kNone>), IsEmpty()) << kWord;
    EXPECT_THAT(run(write_beside<kWord, kPlanted>), races("beside")) << kWord;
}

TEST_F(Emulator, AnOperationReadsEveryWord) {
    ONLY_IN(kTsan);
    expect_race_at_word<0>();
    expect_race_at_word<1>();
    expect_race_at_word<2>();
    expect_race_at_word<3>();
}

// Of A a warp multiplies 16 rows, which it may have written without the others' knowledge; with the fault another has.
template <kit::Major kA, Fault F>
__global__ void multiply_own_rows(float* out) {
    char* tile = kit::align_shared<1024>(kit::dynamic_shared<char>());
    auto* b = reinterpret_cast<kit::bf16*>(tile + 64 * 128);
    for (int i = static_cast<int>(threadIdx.x); i < 16 * 64; i += 128) b[i] = kit::bf16(1.0f);
    kit::fence_proxy_async();
    __syncthreads();
    const unsigned lane = threadIdx.x % 32, warp = (threadIdx.x / 32 + (F == kPlanted)) % 4;
    for (unsigned i = lane; i < 16 * 8; i += 32) {
        // K-major: the rows' chunks. MN-major: of each k the two chunks along M, as the swizzle places them.
        const unsigned at =
            kA == kit::Major::k ? warp * 16 * 8 + i : i / 8 * 8 + ((2 * warp + i % 2) ^ i / 8 % 8);
        if (kA == kit::Major::mn && i % 8 > 1) continue;
        auto* chunk = reinterpret_cast<kit::bf16*>(tile + at * 16);
        for (int j = 0; j < 8; ++j) chunk[j] = kit::bf16(1.0f);
    }
    kit::fence_proxy_async();
    __syncwarp();
    float sums[8] = {};
    kit::wgmma_fence();
    kit::wgmma<kit::bf16, kit::bf16, 16, kA>(sums, kit::matrix_descriptor(tile, kit::Swizzle::bytes128, 1024),
                                             kit::matrix_descriptor(b, kit::Swizzle::bytes128, 1024), false);
    kit::wgmma_commit();
    kit::wgmma_wait<0>();
    for (int i = 0; i < 8; ++i) out[threadIdx.x * 8 + i] = sums[i];
}

template <kit::Major kA>
void expect_rows_of_their_own() {
    const auto run = [](auto kernel) {
        std::vector<float> out(1024);
        const std::string fault = fault_of([&] {
            kit::launch("rows", kernel, {.block = 128, .dynamic_shared = 80 * 128 + 1024}, Stream{},
                        out.data());
        });
        EXPECT_TRUE(!fault.empty() || out == std::vector<float>(1024, 16.0f));
        return fault;
    };
    EXPECT_THAT(run(multiply_own_rows<kA, kNone>), IsEmpty());
    if (kTsan) {
        EXPECT_THAT(run(multiply_own_rows<kA, kPlanted>), races("rows"));
    }
}

TEST_F(Emulator, AWarpMultipliesRowsOfItsOwn) {
    expect_rows_of_their_own<kit::Major::k>();
    expect_rows_of_their_own<kit::Major::mn>();
}

// ---- what has been waited for ----

// Two stores in a group each, from the memory that is returned.
__device__ int* store_in_two_groups(int* out) {
    int* values = reinterpret_cast<int*>(kit::align_shared<128>(kit::dynamic_shared<char>()));
    for (int i = 0; i < 8; ++i) values[i] = i + 1;
    kit::fence_proxy_async();
    for (int i = 0; i < 2; ++i) {
        kit::bulk_store(out + 4 * i, values + 4 * i, 16);
        kit::bulk_commit();
    }
    return values;
}

// The wait is for the older. Late: when both have landed already.
enum class Look { right, at_the_newest, late_at_the_newest };

template <Look F>
__global__ void wait_for_one(int* out, int* seen) {
    store_in_two_groups(out);
    for (int i = 0; i < 300 && F == Look::late_at_the_newest; ++i) __nanosleep(1);
    kit::bulk_wait<1>();
    *seen = out[F == Look::right ? 0 : 4];
    kit::bulk_wait<0>();
}

template <bool kPlanted>
__global__ void write_over_one(int* out, int* seen) {
    int* values = store_in_two_groups(out);
    kit::bulk_wait_sources<1>();
    values[kPlanted ? 4 : 0] = 100;
    if (!kTsan) *seen = out[0];  // which is a race
    kit::bulk_wait<0>();
}

TEST_F(Emulator, AWaitForAllButTheNewestGroupIsForTheOlder) {
    alignas(16) int out[8] = {};
    int seen = 0;
    const kit::LaunchShape shape{.block = 1, .dynamic_shared = 256};
    const auto look = [&](auto kernel) {
        std::fill_n(out, 8, 0);
        return fault_of([&] { kit::launch("look", kernel, shape, Stream{}, &out[0], &seen); });
    };
    const auto write = [&](auto kernel) {
        return fault_of([&] { kit::launch("write", kernel, shape, Stream{}, &out[0], &seen); });
    };
    EXPECT_THAT(look(wait_for_one<Look::right>), IsEmpty());
    EXPECT_EQ(seen, 1);
    EXPECT_THAT(out, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
    std::fill_n(out, 8, 0);
    EXPECT_THAT(write(write_over_one<false>), IsEmpty());
    EXPECT_EQ(seen, kTsan ? 1 : 0) << "its source has been read, and it has not landed";
    EXPECT_THAT(out, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
    EXPECT_THAT(write(write_over_one<true>), names("write", "after the operation was issued"));
    const std::string early = look(wait_for_one<Look::at_the_newest>);
    EXPECT_EQ(seen, 0) << "the newest has not landed yet";
    const std::string late = look(wait_for_one<Look::late_at_the_newest>);
    EXPECT_EQ(seen, 5) << "both have landed";
    ONLY_IN(kTsan);
    EXPECT_THAT(early, races("look"));
    EXPECT_THAT(late, races("look"));
}

// Memory that may be written over is not yet what has landed.
__global__ void wait_twice(int* out, int* seen) {
    store_in_two_groups(out);
    kit::bulk_wait_sources<0>();
    kit::bulk_wait<0>();
    *seen = out[4];
}

TEST_F(Emulator, AWaitForStoresIsForMoreThanTheirSources) {
    in_several_orders([] {
        alignas(16) int out[8] = {};
        int seen = 0;
        EXPECT_THAT(fault_of([&] {
                        kit::launch("twice", wait_twice, {.block = 1, .dynamic_shared = 256}, Stream{},
                                    &out[0], &seen);
                    }),
                    IsEmpty());
        EXPECT_EQ(seen, 5);
    });
}

// ---- what has been counted ----

TEST_F(Emulator, ARaceCountsOnce) {
    const unsigned before = emulator::race_reports();
    emulator::count_race_report();
    EXPECT_EQ(emulator::race_reports(), before + 1);
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
