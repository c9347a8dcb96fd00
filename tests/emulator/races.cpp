// Planted faults, first part: synchronisation that is missing. The emulator must find each, and be silent
// without it.
#include "support.h"

#include "kit/ptx/atomic.cuh"
#include "kit/ptx/cluster.cuh"
#include "kit/ptx/shuffle.cuh"
#include "kit/ptx/store_async.cuh"
#include "kit/ptx/tma.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using test::Fault;
using test::fault_of;
using test::First;
using test::Floats;
using test::kAsan;
using test::kNone;
using test::kPlanted;
using test::kTsan;
using test::names;
using test::races;
using testing::AnyOf;
using testing::IsEmpty;

// ---- barriers that are missing ----

template <Fault F>
__global__ void block_sum(const float* in, float* out) {
    Floats& partial = kit::block_shared<Floats>();
    float sum = in[threadIdx.x];
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += kit::shuffle_xor(sum, lanes);
    if (threadIdx.x % 32 == 0) partial.values[threadIdx.x / 32] = sum;
    if (F == kNone) __syncthreads();
    float total = 0.0f;
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) total += partial.values[warp];
    out[threadIdx.x] = total;
}

template <Fault F>
std::vector<float> run_block_sum() {
    std::vector<float> in(96, 1.0f), out(96);
    kit::launch("block_sum", block_sum<F>, {.grid = 1, .block = 96}, Stream{}, in.data(), out.data());
    return out;
}

TEST_F(Emulator, AMissingBarrierIsARace) {
    ONLY_IN(kTsan);
    EXPECT_THAT(fault_of([] { run_block_sum<kNone>(); }), IsEmpty());
    EXPECT_THAT(fault_of([] { run_block_sum<kPlanted>(); }), races("block_sum"));
}

TEST_F(Emulator, AMissingBarrierDependsOnThePoison) {
    if (kTsan) GTEST_SKIP() << "is reported as a race";
    const auto [good_a, good_b] = test::with_two_poisons(&run_block_sum<kNone>);
    EXPECT_EQ(good_a, good_b);
    const auto [bad_a, bad_b] = test::with_two_poisons(&run_block_sum<kPlanted>);
    EXPECT_NE(bad_a, bad_b);
}

template <Fault F>
__global__ void exchange_in_warp(int* out) {
    int* values = kit::dynamic_shared<int>();
    values[threadIdx.x] = static_cast<int>(threadIdx.x);
    if (F == kNone) __syncwarp();
    const int one = kit::shuffle_xor(1, 1);  // meets the lanes, but orders no memory
    out[threadIdx.x] = values[threadIdx.x ^ 1] * one;
}

TEST_F(Emulator, AShuffleIsNoSyncwarp) {
    ONLY_IN(kTsan);
    std::vector<int> out(32);
    const kit::LaunchShape shape{.grid = 1, .block = 32, .dynamic_shared = 128};
    EXPECT_THAT(
        fault_of([&] { kit::launch("exchange", exchange_in_warp<kNone>, shape, Stream{}, out.data()); }),
        IsEmpty());
    EXPECT_THAT(
        fault_of([&] { kit::launch("exchange", exchange_in_warp<kPlanted>, shape, Stream{}, out.data()); }),
        races("exchange"));
}

template <Fault F>
__global__ void write_after_read(int* out) {
    int* values = kit::dynamic_shared<int>();
    values[threadIdx.x] = static_cast<int>(threadIdx.x);
    __syncthreads();
    const int next = values[(threadIdx.x + 1) % blockDim.x];
    if (F == kNone) __syncthreads();
    values[threadIdx.x] = next;
    __syncthreads();
    out[threadIdx.x] = values[threadIdx.x];
}

TEST_F(Emulator, AWriteAfterAReadIsARaceToo) {
    ONLY_IN(kTsan);
    std::vector<int> out(64);
    const kit::LaunchShape shape{.grid = 1, .block = 64, .dynamic_shared = 256};
    EXPECT_THAT(fault_of([&] { kit::launch("war", write_after_read<kNone>, shape, Stream{}, out.data()); }),
                IsEmpty());
    EXPECT_THAT(
        fault_of([&] { kit::launch("war", write_after_read<kPlanted>, shape, Stream{}, out.data()); }),
        races("war"));
}

template <Fault F>
__global__ void read_neighbour_block(int* out) {
    First& own = kit::block_shared<First>();
    if (threadIdx.x == 0) own.value = 100 + static_cast<int>(blockIdx.x);
    if (F == kNone) kit::cluster_sync();
    if (F == kPlanted) __syncthreads();
    if (threadIdx.x == 1) out[blockIdx.x] = kit::cluster_map(&own, kit::cluster_rank() ^ 1)->value;
    kit::cluster_sync();
}

TEST_F(Emulator, AMissingClusterSyncIsARace) {
    ONLY_IN(kTsan);
    std::vector<int> out(4);
    const kit::LaunchShape shape{.grid = 4, .block = 64, .cluster = 2};
    EXPECT_THAT(
        fault_of([&] { kit::launch("neighbour", read_neighbour_block<kNone>, shape, Stream{}, out.data()); }),
        IsEmpty());
    EXPECT_THAT(fault_of([&] {
                    kit::launch("neighbour", read_neighbour_block<kPlanted>, shape, Stream{}, out.data());
                }),
                races("neighbour"));
}

TEST_F(Emulator, AMissingClusterSyncShowsInSomeOrder) {
    if (kTsan) GTEST_SKIP() << "is reported as a race";
    const auto differences = [](auto* kernel) {
        int count = 0;
        for (uint64_t seed = 1; seed <= 8; ++seed) {
            emulator::set_order(seed);
            const auto [a, b] = test::with_two_poisons([kernel] {
                std::vector<int> out(4);
                kit::launch("neighbour", kernel, {.grid = 4, .block = 64, .cluster = 2}, Stream{},
                            out.data());
                return out;
            });
            count += a != b;
        }
        return count;
    };
    EXPECT_EQ(differences(&read_neighbour_block<kNone>), 0);
    if (kAsan) {
        EXPECT_DEATH(differences(&read_neighbour_block<kPlanted>),
                     "use-after-poison(.|\n)*weft emulator: kernel 'neighbour'");
    } else {
        EXPECT_GT(differences(&read_neighbour_block<kPlanted>), 0);
    }
}

// Each block waits, then leaves: with the fault while its neighbour has not read yet.
template <Fault F>
__global__ void leave_early(int* out) {
    First& own = kit::block_shared<First>();
    if (threadIdx.x == 0) own.value = 7;
    kit::cluster_sync();
    if (kit::cluster_rank() == 1) {
        if (threadIdx.x == 0) {
            for (int i = 0; i < 100; ++i) __nanosleep(1);
            *out = kit::cluster_map(&own, 0)->value;
        }
    }
    if (F == kNone) kit::cluster_sync();
}

TEST_F(Emulator, ABlockMustNotEndWhileOthersReadItsSharedMemory) {
    int out = 0;
    const kit::LaunchShape shape{.grid = 2, .block = 32, .cluster = 2};
    EXPECT_THAT(fault_of([&] { kit::launch("leave_early", leave_early<kNone>, shape, Stream{}, &out); }),
                IsEmpty());
    EXPECT_EQ(out, 7);
    EXPECT_THAT(fault_of([&] { kit::launch("leave_early", leave_early<kPlanted>, shape, Stream{}, &out); }),
                names("leave_early", "whose block has ended"));
}

// Rank 0 writes into its neighbour's shared memory: with the fault perhaps before the neighbour has started.
template <Fault F>
__global__ void write_to_neighbour(int* out) {
    First& own = kit::block_shared<First>();
    if (F == kNone) kit::cluster_sync();
    if (kit::cluster_rank() == 0 && threadIdx.x == 0) kit::cluster_map(&own, 1)->value = 7;
    kit::cluster_sync();
    if (kit::cluster_rank() == 1 && threadIdx.x == 1) *out = own.value;
}

TEST_F(Emulator, ABlockHasNoSharedMemoryBeforeItStarts) {
    int out = 0;
    const auto run = [&out](auto* kernel) {
        kit::launch("early", kernel, {.grid = 2, .block = 64, .cluster = 2}, Stream{}, &out);
        return out;
    };
    EXPECT_EQ(run(&write_to_neighbour<kNone>), 7);
    if (kAsan) {
        EXPECT_DEATH(run(&write_to_neighbour<kPlanted>),
                     "use-after-poison(.|\n)*weft emulator: kernel 'early', block \\(0,0,0\\)");
    } else {
        EXPECT_EQ(run(&write_to_neighbour<kPlanted>), -1);
    }
}

// ---- stores into another block ----

struct Landing {
    kit::Mbarrier barrier;
};

enum class Hand { right, too_few_bytes, too_many_bytes, no_wait, twice, under_a_copy, over_a_copy };

// Block 0 hands a row of float4 to block 1. `more`: what a copy brings there as well, where one is planted.
template <Hand F>
__global__ void hand_over(const float* more, float* out) {
    kit::Mbarrier* landed = &kit::block_shared<Landing>().barrier;
    float4* row = kit::dynamic_shared<float4>();
    if (threadIdx.x == 0) {
        kit::mbarrier_init(landed, 1);
        kit::fence_mbarrier_init();
        const unsigned wrong = F == Hand::too_few_bytes ? -16 : F == Hand::too_many_bytes ? 16 : 0;
        if (kit::cluster_rank() == 1) kit::mbarrier_arrive_expect(landed, 512 + wrong);
    }
    kit::cluster_sync();
    const auto value = static_cast<float>(threadIdx.x);
    const auto hand = [&](unsigned i) { kit::store_async(row + i, {value, 0, 0, value}, landed, 1); };
    const auto copy = [&] { kit::bulk_load(row, more, 512, landed); };
    if (F == Hand::under_a_copy || F == Hand::over_a_copy) {
        if (kit::cluster_rank() == 0 || threadIdx.x != 0) return;
        if (F == Hand::under_a_copy) copy();
        hand(3);
        if (F == Hand::over_a_copy) copy();
        return;
    }
    if (kit::cluster_rank() == 0) {
        hand(threadIdx.x);
        if (F == Hand::twice && threadIdx.x == 31) hand(30);
        return;
    }
    if (F != Hand::no_wait) kit::mbarrier_wait<true>(landed, 0);
    out[threadIdx.x] = row[threadIdx.x].w;
}

template <Hand F>
std::string run_hand() {
    for (const uint64_t seed : {0, 1, 2, 3, 4, 5}) {
        emulator::set_order(seed);
        std::vector<float> out(32);
        const std::vector<float> more(128);
        const kit::LaunchShape shape{.grid = 2, .block = 32, .cluster = 2, .dynamic_shared = 512};
        const auto fault =
            fault_of([&] { kit::launch("hand", hand_over<F>, shape, Stream{}, more.data(), out.data()); });
        if (!fault.empty()) return fault;
        if (out[31] != 31) return "wrong";
    }
    return "";
}

TEST_F(Emulator, StoresIntoAnotherBlock) {
    EXPECT_THAT(run_hand<Hand::right>(), IsEmpty());
    EXPECT_THAT(run_hand<Hand::too_few_bytes>(), names("hand", "the block ends while store_async"));
    EXPECT_THAT(run_hand<Hand::too_many_bytes>(), names("hand", "16 bytes of transactions to come"));
    EXPECT_THAT(
        run_hand<Hand::no_wait>(),
        AnyOf(testing::StrEq("wrong"), names("hand", "the block ends while store_async"), races("hand")));
    EXPECT_THAT(run_hand<Hand::twice>(), names("hand",
                                               "store_async writes shared memory into which is on its way "
                                               "store_async"));
    EXPECT_THAT(run_hand<Hand::under_a_copy>(),
                names("hand", "store_async writes shared memory into which is on its way bulk_load"));
    EXPECT_THAT(run_hand<Hand::over_a_copy>(),
                names("hand", "bulk_load writes shared memory into which is on its way store_async"));
}

// ---- races between blocks ----

template <Fault F, unsigned Threads>
__global__ void accumulate(int* total) {
    if (threadIdx.x == 0) {
        if (F == kNone) {
            kit::atomic_add(total, 1);
        } else {
            total[0] += 1;
        }
    }
    __syncthreads();
}

// ThreadSanitizer reports a race once for each place and address: so each size has a kernel of its own.
template <unsigned Threads>
void expect_race_between_blocks() {
    auto total = std::make_unique<int>(0), raced = std::make_unique<int>(0);
    const kit::LaunchShape shape{.grid = 3, .block = Threads};
    EXPECT_THAT(fault_of([&] {
                    kit::launch("accumulate", accumulate<kNone, Threads>, shape, Stream{}, total.get());
                }),
                IsEmpty());
    EXPECT_EQ(*total, 3);
    EXPECT_THAT(fault_of([&] {
                    kit::launch("accumulate", accumulate<kPlanted, Threads>, shape, Stream{}, raced.get());
                }),
                races("accumulate"))
        << Threads;
}

TEST_F(Emulator, BlocksRaceInGlobalMemory) {
    ONLY_IN(kTsan);
    expect_race_between_blocks<32>();
    expect_race_between_blocks<256>();
    expect_race_between_blocks<1024>();
}

template <Fault F>
__global__ void last_block_sums(float* partial, unsigned* counter, float* out) {
    First& last = kit::block_shared<First>();
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = 1.0f;
        if (F == kNone) __threadfence();
        last.value = kit::atomic_add(counter, 1u) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (!last.value || threadIdx.x != 1) return;
    float sum = 0.0f;
    for (unsigned i = 0; i < gridDim.x; ++i) sum += partial[i];
    *out = sum;
}

TEST_F(Emulator, AnAtomicPublishesNothingWithoutAFence) {
    ONLY_IN(kTsan);
    const auto run = [](auto* kernel) {
        std::vector<float> partial(4);
        unsigned counter = 0;
        float out = 0.0f;
        kit::launch("last_block", kernel, {.grid = 4, .block = 32}, Stream{}, partial.data(), &counter, &out);
    };
    EXPECT_THAT(fault_of([&] { run(&last_block_sums<kNone>); }), IsEmpty());
    EXPECT_THAT(fault_of([&] { run(&last_block_sums<kPlanted>); }), races("last_block"));
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
