// The orders in which threads and operations go on: what the natural one promises, and what random ones bring between
// them. A fault that shows in one kind of order alone is found only where that kind is drawn.
#include "support.h"

#include <algorithm>
#include <set>

#include "kit/ptx/atomic.cuh"
#include "kit/ptx/barrier.cuh"
#include "kit/ptx/cluster.cuh"
#include "kit/ptx/proxy_fence.cuh"
#include "kit/ptx/shuffle.cuh"
#include "kit/ptx/tma.cuh"
#include "kit/ptx/wgmma.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using test::Buffer;
using test::fault_of;
using test::kTsan;
using test::names;
using testing::Each;
using testing::ElementsAre;
using testing::IsSupersetOf;

// ---- who runs next ----

__global__ void take_turns(int* turns, int* next) {
    turns[kit::atomic_add(next, 1)] = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

// The threads of two blocks of eight warps in the order of their turns.
std::vector<int> turns(uint64_t seed) {
    emulator::set_order(seed);
    Buffer<int> turns(512), next(1);
    kit::launch("take_turns", take_turns, {.grid = 2, .block = 256, .cluster = 2}, Stream{}, turns.data(),
                next.data());
    return turns.values();
}

// How often the next one is of another group of so many.
int changes(const std::vector<int>& turns, int group) {
    int count = 0;
    for (size_t i = 1; i < turns.size(); ++i) count += turns[i] / group != turns[i - 1] / group;
    return count;
}

std::string kind_of(const std::vector<int>& turns) {
    constexpr int kWholeWarps = 15;
    if (const int breaks = changes(turns, 32); breaks != kWholeWarps)
        return breaks > 256 ? "fair" : "nearly warps";
    if (changes(turns, 256) != 1) return "warp after warp";
    const bool in_order =
        std::is_sorted(turns.begin(), turns.begin() + 256, [](int a, int b) { return a / 32 < b / 32; });
    if (in_order) return "block after block, warps in order";
    return turns[0] < 256 ? "block after block" : "the second block first";
}

TEST_F(Emulator, RandomOrdersAreOfEveryKind) {
    EXPECT_EQ(kind_of(turns(0)), "block after block, warps in order");
    std::set<std::string> kinds;
    for (uint64_t seed = 1; seed <= 64; ++seed) kinds.insert(kind_of(turns(seed)));
    EXPECT_THAT(kinds, IsSupersetOf({"fair", "nearly warps", "warp after warp", "block after block",
                                     "the second block first"}));
}

// ---- who goes on first where threads meet ----

enum class Meet { block, named, warp, warpgroup };

template <Meet M>
__global__ void meet(int* before, int* after, int* next) {
    auto* tile = reinterpret_cast<kit::bf16*>(kit::align_shared<1024>(kit::dynamic_shared<char>()));
    for (unsigned i = threadIdx.x; i < 16 * 64; i += blockDim.x) tile[i] = kit::bf16(1.0f);
    kit::fence_proxy_async();
    __syncthreads();
    before[kit::atomic_add(next, 1)] = static_cast<int>(threadIdx.x);
    if (M == Meet::block) __syncthreads();
    if (M == Meet::named) kit::named_barrier_sync(1, blockDim.x);
    if (M == Meet::warp) kit::shuffle_xor(1, 1);
    float sums[8] = {};
    if (M == Meet::warpgroup) {
        const uint32_t a[4] = {};
        kit::wgmma_fence();
        kit::wgmma<kit::bf16, kit::bf16, 16>(
            sums, a, kit::matrix_descriptor(tile, kit::Swizzle::bytes128, 1024), false);
    }
    after[kit::atomic_add(next + 1, 1)] = static_cast<int>(threadIdx.x);
    if (M == Meet::warpgroup) {
        kit::wgmma_commit();
        kit::wgmma_wait<0>();
    }
}

// Whether the last to come is the first to go on.
template <Meet M>
bool last_goes_first(uint64_t seed) {
    constexpr unsigned kThreads = M == Meet::warp ? 32 : 128;
    emulator::set_order(seed);
    Buffer<int> before(kThreads), after(kThreads), next(2);
    kit::launch("meet", meet<M>, {.block = kThreads, .dynamic_shared = 3072}, Stream{}, before.data(),
                after.data(), next.data());
    return before.values().back() == after.values().front();
}

template <Meet M>
void expect_both_in_random_orders() {
    EXPECT_TRUE(last_goes_first<M>(0)) << "a thread runs until it waits";
    int first = 0;
    for (uint64_t seed = 1; seed <= 32; ++seed) first += last_goes_first<M>(seed);
    EXPECT_LT(first, 32);
}

TEST_F(Emulator, TheLastToArriveIsNotAlwaysTheFirstToGoOn) {
    expect_both_in_random_orders<Meet::block>();
    expect_both_in_random_orders<Meet::named>();
    expect_both_in_random_orders<Meet::warp>();
    expect_both_in_random_orders<Meet::warpgroup>();
}

// ---- when operations are performed ----

struct Eight {
    kit::Mbarrier at[8];
};

// Thread 0 asks for eight copies; a warp waits for each.
__global__ void copies_land(const int* in, int* turns, int* next) {
    Eight& landed = kit::block_shared<Eight>();
    char* to = kit::align_shared<128>(kit::dynamic_shared<char>());
    if (threadIdx.x == 0) {
        for (kit::Mbarrier& barrier : landed.at) kit::mbarrier_init(&barrier, 1);
        kit::fence_mbarrier_init();
        for (int i = 0; i < 8; ++i) {
            kit::mbarrier_arrive_expect(&landed.at[i], 16);
            kit::bulk_load(to + 16 * i, in, 16, &landed.at[i]);
        }
    }
    __syncthreads();
    if (threadIdx.x % 32 != 0) return;
    kit::mbarrier_wait(&landed.at[threadIdx.x / 32], 0);
    turns[kit::atomic_add(next, 1)] = static_cast<int>(threadIdx.x / 32);
}

TEST_F(Emulator, InTheNaturalOrderTheOldestOperationGoesFirst) {
    alignas(16) const int in[4] = {};
    Buffer<int> turns(8), next(1);
    kit::launch("copies_land", copies_land, {.block = 256, .dynamic_shared = 256}, Stream{}, &in[0],
                turns.data(), next.data());
    EXPECT_THAT(turns.values(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

// What is there right after a copy was asked for, and a while later. Nothing orders those reads with it.
__global__ void look_before_the_wait(const int* in, int* seen) {
    kit::Mbarrier& landed = kit::block_shared<kit::Mbarrier>();
    volatile int* to = reinterpret_cast<int*>(kit::align_shared<128>(kit::dynamic_shared<char>()));
    kit::mbarrier_init(&landed, 1);
    kit::fence_mbarrier_init();
    kit::mbarrier_arrive_expect(&landed, 16);
    kit::bulk_load(const_cast<int*>(to), in, 16, &landed);
    seen[0] = to[0];
    for (int i = 0; i < 20; ++i) __nanosleep(1);
    seen[1] = to[0];
    kit::mbarrier_wait(&landed, 0);
    seen[2] = to[0];
}

TEST_F(Emulator, AnOperationIsPerformedAtOnceOrInBetweenOrLast) {
    if (kTsan) GTEST_SKIP() << "looks by racing";
    alignas(16) const int in[4] = {7, 7, 7, 7};
    const auto kind = [&](uint64_t seed) {
        emulator::set_order(seed);
        Buffer<int> seen(3);
        kit::launch("look", look_before_the_wait, {.block = 1, .dynamic_shared = 256}, Stream{}, &in[0],
                    seen.data());
        const auto values = seen.values();
        EXPECT_EQ(values[2], 7);
        return std::string(values[0] == 7 ? "at once" : values[1] == 7 ? "in between" : "last");
    };
    EXPECT_EQ(kind(0), "last");
    std::set<std::string> kinds;
    for (uint64_t seed = 1; seed <= 64; ++seed) kinds.insert(kind(seed));
    EXPECT_THAT(kinds, testing::UnorderedElementsAre("at once", "in between", "last"));
}

// A thread waits in a loop for one that waits for a copy: somebody can always run.
__global__ void wait_in_a_loop(const int* in, unsigned* flag, int* out) {
    kit::Mbarrier& landed = kit::block_shared<kit::Mbarrier>();
    int* to = reinterpret_cast<int*>(kit::align_shared<128>(kit::dynamic_shared<char>()));
    if (threadIdx.x == 0) {
        kit::mbarrier_init(&landed, 1);
        kit::fence_mbarrier_init();
        kit::mbarrier_arrive_expect(&landed, 16);
        kit::bulk_load(to, in, 16, &landed);
        kit::mbarrier_wait(&landed, 0);
        __threadfence();
        kit::atomic_add(flag, 1u);
    } else if (threadIdx.x == 32) {
        while (kit::atomic_add(flag, 0u) == 0) __nanosleep(20);
        __threadfence();
        *out = to[3];
    }
}

TEST_F(Emulator, OperationsGoOnWhileAThreadWaitsInALoop) {
    alignas(16) const int in[4] = {1, 2, 3, 4};
    test::in_several_orders([&] {
        Buffer<unsigned> flag(1);
        Buffer<int> out(1);
        kit::launch("wait_in_a_loop", wait_in_a_loop, {.block = 64, .dynamic_shared = 256}, Stream{}, &in[0],
                    flag.data(), out.data());
        EXPECT_EQ(out.value(), 4);
    });
}

// ---- the end ----

__global__ void first_traps(int* out) {
    if (threadIdx.x == 0) __trap();
    out[threadIdx.x] = 1;
}

TEST_F(Emulator, AFaultStopsThreadsThatHaveNotRun) {
    Buffer<int> out(64);
    EXPECT_THAT(fault_of([&] { kit::launch("first", first_traps, {.block = 64}, Stream{}, out.data()); }),
                names("first", "__trap"));
    EXPECT_THAT(out.values(), Each(0));
}

// The largest cluster has more warps than one word of the queue holds.
__global__ void count_threads(int* out) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    out[thread] = static_cast<int>(thread);
    kit::cluster_sync();
    if (kit::any(out[thread] != static_cast<int>(thread))) return;
    out[thread] += 1;
}

TEST_F(Emulator, EveryThreadOfTheLargestClusterRuns) {
    if (kTsan) GTEST_SKIP() << "knows fewer threads";
    for (uint64_t seed = 0; seed <= 8; ++seed) {
        emulator::set_order(seed);
        Buffer<int> out(8 * 1024);
        kit::launch("count_threads", count_threads, {.grid = 8, .block = 1024, .cluster = 8}, Stream{},
                    out.data());
        const auto got = out.values();
        for (int i = 0; i < 8 * 1024; ++i) ASSERT_EQ(got[static_cast<size_t>(i)], i + 1) << "order " << seed;
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
