// Planted faults, second part: barriers and warp operations that not all threads reach.
#include "support.h"

#include "kit/ptx/atomic.cuh"
#include "kit/ptx/barrier.cuh"
#include "kit/ptx/cluster.cuh"
#include "kit/ptx/mma.cuh"
#include "kit/ptx/shuffle.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using test::fault_of;
using test::kTsan;
using test::names;
using testing::AllOf;
using testing::HasSubstr;

// ---- barriers that not all reach ----

__global__ void half_waits() {
    if (threadIdx.x < 48) __syncthreads();
}

__global__ void two_barriers() {
    if (threadIdx.x < 32) {
        __syncthreads();
    } else {
        __syncthreads();
    }
}

__global__ void one_loops_less() {
    for (unsigned i = threadIdx.x == 5 ? 1 : 0; i < 3; ++i) __syncthreads();
}

TEST_F(Emulator, DivergentBarriers) {
    test::in_several_orders([] {
        EXPECT_THAT(fault_of([] { kit::launch("half", half_waits, {.grid = 2, .block = 64}, Stream{}); }),
                    names("half", "divergent barrier"));
        EXPECT_THAT(fault_of([] { kit::launch("two", two_barriers, {.grid = 1, .block = 64}, Stream{}); }),
                    names("two", "at another one"));
        EXPECT_THAT(fault_of([] { kit::launch("less", one_loops_less, {.grid = 1, .block = 64}, Stream{}); }),
                    names("less", "divergent barrier"));
    });
}

// Two operations on a line are two.
__global__ void two_of_a_line(float* out) {
    const bool low = threadIdx.x < 16;
    out[threadIdx.x] = low ? kit::shuffle_xor(1.0f, 1) : kit::shuffle_xor(2.0f, 1);
}

TEST_F(Emulator, OperationsOfAWarpAreToldApartOnALine) {
    std::vector<float> out(32);
    EXPECT_THAT(
        fault_of([&] { kit::launch("two_of_a_line", two_of_a_line, {.block = 32}, Stream{}, out.data()); }),
        names("two_of_a_line", "divergent warp"));
}

TEST_F(Emulator, AFaultNamesTheThreadThatLeft) {
    EXPECT_THAT(fault_of([] { kit::launch("less", one_loops_less, {.grid = 1, .block = 64}, Stream{}); }),
                HasSubstr("(5,0,0)"));
}

__global__ void waits_at_different_things() {
    if (threadIdx.x < 32) {
        kit::named_barrier_sync(3, 64);
    } else {
        __syncthreads();
    }
}

__global__ void too_many_named() { kit::named_barrier_sync(1, 128); }

__global__ void half_a_warp_named() {
    if (threadIdx.x % 32 < 16) kit::named_barrier_sync(1, 32);
}

__global__ void disagreeing_named() { kit::named_barrier_sync(2, threadIdx.x < 32 ? 64 : 96); }

TEST_F(Emulator, NamedBarriersThatCannotComplete) {
    const kit::LaunchShape shape{.grid = 1, .block = 64};
    EXPECT_THAT(
        fault_of([&] { kit::launch("k", waits_at_different_things, shape, Stream{}); }),
        AllOf(names("k", "deadlock"), HasSubstr("32 at named barrier"), HasSubstr("32 at __syncthreads")));
    EXPECT_THAT(fault_of([&] { kit::launch("k", too_many_named, shape, Stream{}); }), names("k", "deadlock"));
    EXPECT_THAT(fault_of([&] { kit::launch("k", half_a_warp_named, shape, Stream{}); }),
                names("k", "whole warps"));
    EXPECT_THAT(fault_of([&] { kit::launch("k", disagreeing_named, shape, Stream{}); }),
                names("k", "among 96 threads"));
}

__global__ void waits_for_another_block(unsigned* arrived) {
    kit::atomic_add(arrived, 1u);
    while (kit::atomic_add(arrived, 0u) < gridDim.x) __nanosleep(1);
}

TEST_F(Emulator, AKernelMustNotWaitForABlockThatHasNotStarted) {
    if (kTsan) GTEST_SKIP() << "takes long";
    unsigned arrived = 0;
    EXPECT_THAT(fault_of([&] {
                    kit::launch("grid_barrier", waits_for_another_block, {.grid = 2, .block = 1}, Stream{},
                                &arrived);
                }),
                names("grid_barrier", "one after another"));
}

// ---- the halves of a cluster's barrier ----

enum class Halves { right, arrives_twice, never_waits, never_arrives, meets_whole, leaves };

template <Halves F>
__global__ void meet_in_halves() {
    if (F != Halves::never_arrives) kit::cluster_arrive();
    if (F == Halves::leaves) return;
    if (F == Halves::arrives_twice) kit::cluster_arrive();
    if (F == Halves::meets_whole) kit::cluster_sync();
    if (F != Halves::never_waits) kit::cluster_wait();
    kit::cluster_sync();
}

TEST_F(Emulator, HalvesOfAClustersBarrier) {
    const auto fault = [](auto* kernel) {
        return fault_of([&] { kit::launch("k", kernel, {.grid = 2, .block = 64, .cluster = 2}, Stream{}); });
    };
    EXPECT_EQ(fault(&meet_in_halves<Halves::right>), "");
    EXPECT_THAT(fault(&meet_in_halves<Halves::arrives_twice>), names("k", "a second cluster_arrive"));
    EXPECT_THAT(fault(&meet_in_halves<Halves::never_waits>), names("k", "between cluster_arrive and"));
    EXPECT_THAT(fault(&meet_in_halves<Halves::never_arrives>), names("k", "cluster_wait without"));
    EXPECT_THAT(fault(&meet_in_halves<Halves::meets_whole>), names("k", "between cluster_arrive and"));
    EXPECT_THAT(fault(&meet_in_halves<Halves::leaves>), names("k", "exits between cluster_arrive and"));
}

// ---- warps ----

__global__ void shuffle_after_exit(int* out) {
    if (threadIdx.x == 9) return;
    out[threadIdx.x] = kit::shuffle_xor(static_cast<int>(threadIdx.x), 1);
}

__global__ void shuffle_in_a_partial_warp(int* out) { out[threadIdx.x] = kit::shuffle_down(1, 4); }

__global__ void shuffle_in_a_branch(int* out) {
    int value = 0;
    if (threadIdx.x % 2 == 0) value = kit::shuffle(1, 0);
    out[threadIdx.x] = value;
    __syncthreads();
}

__global__ void vote_in_two_branches(int* out) {
    if (threadIdx.x < 16) {
        out[threadIdx.x] = kit::any(true);
    } else {
        out[threadIdx.x] = kit::any(false);
    }
}

__global__ void mma_without_a_lane() {
    float c[4] = {};
    const uint32_t a[4] = {}, b[2] = {};
    if (threadIdx.x != 3) kit::mma_m16n8k16<kit::bf16>(c, a, b);
}

TEST_F(Emulator, LanesThatAreNotThere) {
    test::in_several_orders([] {
        std::vector<int> out(64);
        const kit::LaunchShape warp{.grid = 1, .block = 32};
        EXPECT_THAT(fault_of([&] { kit::launch("k", shuffle_after_exit, warp, Stream{}, out.data()); }),
                    AllOf(names("k", "reads lane 9"), HasSubstr("thread (8,0,0)")));
        EXPECT_THAT(fault_of([&] {
                        kit::launch("k", shuffle_in_a_partial_warp, {.grid = 1, .block = 40}, Stream{},
                                    out.data());
                    }),
                    names("k", "does not exist"));
        EXPECT_THAT(fault_of([&] { kit::launch("k", shuffle_in_a_branch, warp, Stream{}, out.data()); }),
                    names("k", "deadlock"));
        EXPECT_THAT(fault_of([&] { kit::launch("k", vote_in_two_branches, warp, Stream{}, out.data()); }),
                    names("k", "divergent warp"));
        EXPECT_THAT(fault_of([&] { kit::launch("k", mma_without_a_lane, warp, Stream{}); }),
                    names("k", "a lane of the warp has exited"));
    });
}
__global__ void count_all(int* out) {
    const int count = __syncthreads_count(1);
    if (threadIdx.x == 0) *out = count;
}

int count_block() {
    int count = 0;
    kit::launch("count_all", count_all, {.grid = 1, .block = 64}, Stream{}, &count);
    return count;
}

TEST_F(Emulator, AFaultLeavesTheEmulatorUsable) {
    for (int i = 0; i < 3; ++i) {
        EXPECT_THAT(fault_of([] { kit::launch("half", half_waits, {.grid = 2, .block = 64}, Stream{}); }),
                    HasSubstr("divergent"));
        EXPECT_EQ(count_block(), 64);
    }
}

TEST_F(Emulator, ARandomOrderIsPartOfTheMessage) {
    emulator::set_order(12345);
    EXPECT_THAT(fault_of([] { kit::launch("half", half_waits, {.grid = 1, .block = 64}, Stream{}); }),
                HasSubstr("[order 12345]"));
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
