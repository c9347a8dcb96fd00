// Mutations: small kernels with one planted fault each, which the emulator must find; without it, it must be silent.
// Races need ThreadSanitizer, and out of bounds in global memory AddressSanitizer.
#include "support.h"

#include "kit/ptx/atomic.cuh"
#include "kit/ptx/barrier.cuh"
#include "kit/ptx/cluster.cuh"
#include "kit/ptx/cp_async.cuh"
#include "kit/ptx/ldmatrix.cuh"
#include "kit/ptx/memory.cuh"
#include "kit/ptx/mma.cuh"
#include "kit/ptx/pdl.cuh"
#include "kit/ptx/shuffle.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using test::Emulator;
using test::fault_of;
using test::kAsan;
using test::kTsan;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

enum Fault { kNone, kPlanted };

// A test with this in it is skipped in the other builds, which cannot see the fault.
#define ONLY_IN(build)                                             \
    if (!(build)) GTEST_SKIP() << "needs another sanitizer build"

auto names(const char* kernel, const char* what) {
    return AllOf(HasSubstr(std::string("kernel '") + kernel + "', block ("), HasSubstr("thread ("), HasSubstr(what));
}

auto races(const char* kernel) { return AllOf(HasSubstr(kernel), HasSubstr("data races")); }

struct Floats {
    float values[32];
};

struct First {
    int value;
};

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
    EXPECT_THAT(fault_of([&] { kit::launch("exchange", exchange_in_warp<kNone>, shape, Stream{}, out.data()); }),
                IsEmpty());
    EXPECT_THAT(fault_of([&] { kit::launch("exchange", exchange_in_warp<kPlanted>, shape, Stream{}, out.data()); }),
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
    EXPECT_THAT(fault_of([&] { kit::launch("war", write_after_read<kNone>, shape, Stream{}, out.data()); }), IsEmpty());
    EXPECT_THAT(fault_of([&] { kit::launch("war", write_after_read<kPlanted>, shape, Stream{}, out.data()); }),
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
    EXPECT_THAT(fault_of([&] { kit::launch("neighbour", read_neighbour_block<kNone>, shape, Stream{}, out.data()); }),
                IsEmpty());
    EXPECT_THAT(
        fault_of([&] { kit::launch("neighbour", read_neighbour_block<kPlanted>, shape, Stream{}, out.data()); }),
        races("neighbour"));
}

TEST_F(Emulator, AMissingClusterSyncDependsOnThePoisonInSomeOrder) {
    if (kTsan) GTEST_SKIP() << "is reported as a race";
    const auto differences = [](auto* kernel) {
        int count = 0;
        for (uint64_t seed = 1; seed <= 8; ++seed) {
            emulator::set_order(seed);
            const auto [a, b] = test::with_two_poisons([kernel] {
                std::vector<int> out(4);
                kit::launch("neighbour", kernel, {.grid = 4, .block = 64, .cluster = 2}, Stream{}, out.data());
                return out;
            });
            count += a != b;
        }
        return count;
    };
    EXPECT_EQ(differences(&read_neighbour_block<kNone>), 0);
    EXPECT_GT(differences(&read_neighbour_block<kPlanted>), 0);
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
    EXPECT_THAT(fault_of([&] { kit::launch("leave_early", leave_early<kNone>, shape, Stream{}, &out); }), IsEmpty());
    EXPECT_EQ(out, 7);
    EXPECT_THAT(fault_of([&] { kit::launch("leave_early", leave_early<kPlanted>, shape, Stream{}, &out); }),
                names("leave_early", "whose block has ended"));
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
    EXPECT_THAT(
        fault_of([&] { kit::launch("accumulate", accumulate<kNone, Threads>, shape, Stream{}, total.get()); }),
        IsEmpty());
    EXPECT_EQ(*total, 3);
    EXPECT_THAT(
        fault_of([&] { kit::launch("accumulate", accumulate<kPlanted, Threads>, shape, Stream{}, raced.get()); }),
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
    EXPECT_THAT(fault_of([&] { kit::launch("k", waits_at_different_things, shape, Stream{}); }),
                AllOf(names("k", "deadlock"), HasSubstr("32 at named barrier"), HasSubstr("32 at __syncthreads")));
    EXPECT_THAT(fault_of([&] { kit::launch("k", too_many_named, shape, Stream{}); }), names("k", "deadlock"));
    EXPECT_THAT(fault_of([&] { kit::launch("k", half_a_warp_named, shape, Stream{}); }), names("k", "whole warps"));
    EXPECT_THAT(fault_of([&] { kit::launch("k", disagreeing_named, shape, Stream{}); }), names("k", "among 96 threads"));
}

__global__ void waits_for_another_block(unsigned* arrived) {
    kit::atomic_add(arrived, 1u);
    while (kit::atomic_add(arrived, 0u) < gridDim.x) __nanosleep(1);
}

TEST_F(Emulator, AKernelMustNotWaitForABlockThatHasNotStarted) {
    if (kTsan) GTEST_SKIP() << "takes long";
    unsigned arrived = 0;
    EXPECT_THAT(fault_of([&] {
                    kit::launch("grid_barrier", waits_for_another_block, {.grid = 2, .block = 1}, Stream{}, &arrived);
                }),
                names("grid_barrier", "one after another"));
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
                        kit::launch("k", shuffle_in_a_partial_warp, {.grid = 1, .block = 40}, Stream{}, out.data());
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

// ---- addresses ----

__global__ void load_at(const char* base, int offset, float4* out) {
    *out = kit::load(reinterpret_cast<const float4*>(base + offset));
}

__global__ void copy_at(const char* base, int offset) {
    kit::cp_async_16(kit::dynamic_shared<char>(), base + offset);
    kit::cp_async_commit();
    kit::cp_async_wait<0>();
}

__global__ void ldmatrix_at(int offset) {
    uint32_t r[4];
    kit::ldmatrix_x4(r, kit::dynamic_shared<char>() + offset);
}

TEST_F(Emulator, MisalignedVectors) {
    alignas(16) char data[64] = {};
    float4 out;
    const kit::LaunchShape shape{.grid = 1, .block = 32, .dynamic_shared = 64};
    EXPECT_THAT(fault_of([&] { kit::launch("k", load_at, {.grid = 1, .block = 1}, Stream{}, data, 16, &out); }), IsEmpty());
    EXPECT_THAT(fault_of([&] { kit::launch("k", load_at, shape, Stream{}, data, 4, &out); }),
                names("k", "not a multiple of 16"));
    EXPECT_THAT(fault_of([&] { kit::launch("k", copy_at, shape, Stream{}, data, 8); }),
                names("k", "not a multiple of 16"));
    EXPECT_THAT(fault_of([&] { kit::launch("k", ldmatrix_at, shape, Stream{}, 8); }),
                names("k", "not a multiple of 16"));
}

__global__ void plain_vector_at(const char* base, int offset, float4* out) {
    *out = *reinterpret_cast<const float4*>(base + offset);
}

TEST_F(Emulator, MisalignedPlainVectorsAreUndefinedBehaviour) {
    ONLY_IN(kAsan);
    alignas(16) char data[64] = {};
    float4 out;
    EXPECT_DEATH(kit::launch("k", plain_vector_at, {.grid = 1, .block = 1}, Stream{}, data, 4, &out),
                 "misaligned address(.|\n)*weft emulator: kernel 'k', block \\(0,0,0\\), thread \\(0,0,0\\)");
}

template <Fault F>
__global__ void shift_in_static() {
    Floats& floats = kit::block_shared<Floats>();
    floats.values[threadIdx.x + (F == kPlanted)] = 0.0f;
}

template <Fault F>
__global__ void shift_in_dynamic() {
    kit::dynamic_shared<float>()[threadIdx.x + (F == kPlanted)] = 0.0f;
}

TEST_F(Emulator, OutOfBoundsInSharedMemory) {
    const kit::LaunchShape fixed{.grid = 1, .block = 32}, dynamic{.grid = 1, .block = 31, .dynamic_shared = 31 * 4};
    EXPECT_THAT(fault_of([&] { kit::launch("k", shift_in_static<kNone>, fixed, Stream{}); }), IsEmpty());
    EXPECT_THAT(fault_of([&] { kit::launch("k", shift_in_dynamic<kNone>, dynamic, Stream{}); }), IsEmpty());
    if (kAsan) {
        EXPECT_DEATH(kit::launch("k", shift_in_static<kPlanted>, fixed, Stream{}),
                     "(out of bounds|heap-buffer-overflow)(.|\n)*weft emulator: kernel 'k', block \\(0,0,0\\), thread \\(31,0,0\\)");
        EXPECT_DEATH(kit::launch("k", shift_in_dynamic<kPlanted>, dynamic, Stream{}),
                     "heap-buffer-overflow(.|\n)*weft emulator: kernel 'k', block \\(0,0,0\\), thread \\(30,0,0\\)");
    } else {
        EXPECT_THAT(fault_of([&] { kit::launch("k", shift_in_static<kPlanted>, fixed, Stream{}); }),
                    names("k", "static shared object of 128 bytes"));
        EXPECT_THAT(fault_of([&] { kit::launch("k", shift_in_dynamic<kPlanted>, dynamic, Stream{}); }),
                    names("k", "its 124 bytes of dynamic shared memory"));
    }
}

template <Fault F>
__global__ void scale(const float* in, float* out, int count) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (F == kNone && i >= count) return;  // the mask of the tail
    out[i] = 2.0f * in[i];
}

TEST_F(Emulator, ADroppedTailMaskReadsOutOfBounds) {
    ONLY_IN(kAsan);
    std::vector<float> in(100), out(100);
    const kit::LaunchShape shape{.grid = 4, .block = 32};
    EXPECT_THAT(fault_of([&] { kit::launch("scale", scale<kNone>, shape, Stream{}, in.data(), out.data(), 100); }),
                IsEmpty());
    EXPECT_DEATH(kit::launch("scale", scale<kPlanted>, shape, Stream{}, in.data(), out.data(), 100),
                 "heap-buffer-overflow(.|\n)*weft emulator: kernel 'scale', block \\(3,0,0\\), thread \\(4,0,0\\)");
}

__global__ void maps_wrongly(int* out, unsigned rank) { *out = *kit::cluster_map(out, rank); }

TEST_F(Emulator, ClusterMapOfWhatIsNotShared) {
    int out = 0;
    const kit::LaunchShape shape{.grid = 2, .block = 1, .cluster = 2};
    EXPECT_THAT(fault_of([&] { kit::launch("k", maps_wrongly, shape, Stream{}, &out, 1u); }),
                names("k", "outside of its block's shared memory"));
    EXPECT_THAT(fault_of([&] { kit::launch("k", maps_wrongly, shape, Stream{}, &out, 2u); }),
                names("k", "rank 2 of a cluster of 2"));
}

// ---- what was never written ----

template <Fault F>
__global__ void sum_of_dynamic(float* out) {
    float* values = kit::dynamic_shared<float>();
    if (F == kNone || threadIdx.x != 17) values[threadIdx.x] = 1.0f;
    __syncthreads();
    float sum = 0.0f;
    for (unsigned i = 0; i < blockDim.x; ++i) sum += values[i];
    if (threadIdx.x == 0) *out = sum;
}

template <Fault F>
uint32_t run_sum_of_dynamic() {
    float out = 0.0f;
    kit::launch("sum", sum_of_dynamic<F>, {.grid = 1, .block = 64, .dynamic_shared = 256}, Stream{}, &out);
    return __float_as_uint(out);
}

TEST_F(Emulator, AnUninitialisedReadDependsOnThePoison) {
    const auto [good_a, good_b] = test::with_two_poisons(&run_sum_of_dynamic<kNone>);
    EXPECT_EQ(good_a, good_b);
    const auto [bad_a, bad_b] = test::with_two_poisons(&run_sum_of_dynamic<kPlanted>);
    EXPECT_NE(bad_a, bad_b);
}

enum CopyFault { kCopied, kNoWait, kWaitTooWeak, kNoCommit, kNoBarrier };

template <CopyFault F>
__global__ void copy_two(const uint4* in, uint4* out) {
    uint4* buffer = kit::dynamic_shared<uint4>();
    kit::cp_async_16(buffer + threadIdx.x, in + threadIdx.x);
    kit::cp_async_commit();
    kit::cp_async_16(buffer + 32 + threadIdx.x, in + 32 + threadIdx.x);
    if (F != kNoCommit) kit::cp_async_commit();
    if (F == kWaitTooWeak) {
        kit::cp_async_wait<1>();
    } else if (F != kNoWait) {
        kit::cp_async_wait<0>();
    }
    if (F != kNoBarrier) __syncthreads();
    out[threadIdx.x] = buffer[threadIdx.x ^ 1];
    out[32 + threadIdx.x] = buffer[32 + (threadIdx.x ^ 1)];
}

template <CopyFault F>
std::vector<unsigned> run_copy_two() {
    std::vector<uint4> in(64), out(64);
    for (unsigned i = 0; i < 64; ++i) in[i] = {i, i, i, i};
    kit::launch("copy_two", copy_two<F>, {.grid = 1, .block = 32, .dynamic_shared = 1024}, Stream{}, in.data(),
                out.data());
    std::vector<unsigned> x;
    for (const uint4& vector : out) x.push_back(vector.x);
    return x;
}

template <CopyFault F>
bool depends_on_poison() {
    const auto [a, b] = test::with_two_poisons(&run_copy_two<F>);
    return a != b;
}

TEST_F(Emulator, ACopyThatIsNotWaitedForHasNotLanded) {
    EXPECT_FALSE(depends_on_poison<kCopied>());
    EXPECT_TRUE(depends_on_poison<kNoWait>());
    EXPECT_TRUE(depends_on_poison<kWaitTooWeak>());
    EXPECT_TRUE(depends_on_poison<kNoCommit>());
    EXPECT_EQ(run_copy_two<kCopied>()[40], 41u);
}

TEST_F(Emulator, ACopyIsThereForOthersAfterABarrierOnly) {
    ONLY_IN(kTsan);
    EXPECT_THAT(fault_of([] { run_copy_two<kCopied>(); }), IsEmpty());
    EXPECT_THAT(fault_of([] { run_copy_two<kNoBarrier>(); }), races("copy_two"));
}

// ---- launches ----

__global__ void nothing() {}

struct Big {
    char bytes[40 * 1024];
};

__global__ void much_shared() {
    kit::block_shared<Big>().bytes[0] = 0;
    kit::block_shared<Big, int>().bytes[0] = 0;
}

TEST_F(Emulator, TheLimitsOfTheDevice) {
    const auto fault = [](const kit::LaunchShape& shape) {
        return fault_of([&] { kit::launch("nothing", nothing, shape, Stream{}); });
    };
    EXPECT_THAT(fault({.grid = 1, .block = 1024, .dynamic_shared = 227 * 1024}), IsEmpty());
    EXPECT_THAT(fault({.grid = 1, .block = 1025}), AllOf(HasSubstr("nothing"), HasSubstr("(1025,1,1) threads")));
    EXPECT_THAT(fault({.grid = 1, .block = dim3(64, 32)}), HasSubstr("(64,32,1) threads"));
    EXPECT_THAT(fault({.grid = 1, .block = dim3(1, 1, 65)}), HasSubstr("(1,1,65) threads"));
    EXPECT_THAT(fault({.grid = 0, .block = 32}), HasSubstr("a grid of (0,1,1)"));
    EXPECT_THAT(fault({.grid = dim3(1, 65536), .block = 32}), HasSubstr("a grid of (1,65536,1)"));
    EXPECT_THAT(fault({.grid = 6, .block = 32, .cluster = 4}), HasSubstr("clusters of 4 in a grid of 6"));
    EXPECT_THAT(fault({.grid = 16, .block = 32, .cluster = 16}), HasSubstr("clusters of 16"));
    EXPECT_THAT(fault({.grid = 1, .block = 32, .dynamic_shared = 227 * 1024 + 1}), HasSubstr("232449 bytes"));
    EXPECT_THAT(fault_of([] { kit::launch("much", much_shared, {.grid = 1, .block = 1}, Stream{}); }),
                names("much", "81920 bytes of static"));
    EXPECT_THAT(fault_of([] { kit::launch("early", nothing, {.dependent = true}, Stream{}); }),
                AllOf(HasSubstr("early"), HasSubstr("dependency_wait")));
}

TEST_F(Emulator, AFaultLeavesTheEmulatorUsable) {
    for (int i = 0; i < 3; ++i) {
        EXPECT_THAT(fault_of([] { kit::launch("half", half_waits, {.grid = 2, .block = 64}, Stream{}); }),
                    HasSubstr("divergent"));
        EXPECT_EQ(run_block_sum<kNone>()[5], 96.0f);
    }
}

TEST_F(Emulator, ARandomOrderIsPartOfTheMessage) {
    emulator::set_order(12345);
    EXPECT_THAT(fault_of([] { kit::launch("half", half_waits, {.grid = 1, .block = 64}, Stream{}); }),
                HasSubstr("[order 12345]"));
}

}  // namespace
}  // namespace weft::WEFT_TARGET
