// The execution model: what correct kernels may rely on, in every order, and on a GPU (on_gpu.cu).
#include "support.h"

#include "kit/ptx/atomic.cuh"
#include "kit/ptx/barrier.cuh"
#include "kit/ptx/cluster.cuh"
#include "kit/ptx/memory.cuh"
#include "kit/ptx/pdl.cuh"
#include "kit/ptx/shuffle.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using test::Buffer;
using test::in_several_orders;
using testing::Each;
using testing::ElementsAre;

struct Floats {
    float values[32];
};

__global__ void row_sums(const float* in, float* out, int columns) {
    Floats& partial = kit::block_shared<Floats>();
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += in[size_t{blockIdx.x} * columns + i];
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += kit::shuffle_xor(sum, lanes);
    if (threadIdx.x % 32 == 0) partial.values[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    float total = 0.0f;
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) total += partial.values[warp];
    out[blockIdx.x] = total;
}

ON_BOTH(80, SumsRowsInEveryOrder) {
    constexpr int kRows = 5, kColumns = 300;
    std::vector<float> rows(kRows * kColumns);
    for (int i = 0; i < kRows * kColumns; ++i) rows[i] = static_cast<float>(i / kColumns + 1);
    Buffer<float> in(rows);
    in_several_orders([&] {
        Buffer<float> out(kRows, -1.0f);
        kit::launch("row_sums", row_sums, {.grid = kRows, .block = 128}, Stream{}, in.data(), out.data(),
                    kColumns);
        EXPECT_THAT(out.values(), ElementsAre(300.0f, 600.0f, 900.0f, 1200.0f, 1500.0f));
    });
}

__global__ void indices(unsigned* out) {
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread;
}

ON_BOTH(80, ThreeDimensionsOfBlocksAndThreads) {
    in_several_orders([] {
        Buffer<unsigned> out(2 * 3 * 4 * 4 * 6 * 2, ~0u);
        kit::launch("indices", indices, {.grid = dim3(2, 3, 4), .block = dim3(4, 6, 2)}, Stream{},
                    out.data());
        const auto got = out.values();
        for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], i / 48 * 1000 + i % 48);
    });
}

// Rotates values through the block by way of dynamic shared memory, a barrier for each step.
__global__ void rotate(int* out, int steps) {
    int* values = kit::dynamic_shared<int>();
    values[threadIdx.x] = static_cast<int>(threadIdx.x);
    for (int i = 0; i < steps; ++i) {
        __syncthreads();
        const int next = values[(threadIdx.x + 1) % blockDim.x];
        __syncthreads();
        values[threadIdx.x] = next;
    }
    out[threadIdx.x] = values[threadIdx.x];
}

ON_BOTH(80, DynamicSharedMemoryAndManyBarriers) {
    in_several_orders([] {
        Buffer<int> out(96);
        kit::launch("rotate", rotate, {.grid = 1, .block = 96, .dynamic_shared = 96 * sizeof(int)}, Stream{},
                    out.data(), 10);
        const auto got = out.values();
        for (int i = 0; i < 96; ++i) ASSERT_EQ(got[i], (i + 10) % 96);
    });
}

struct First {
    int value;
};

__global__ void separate_storage(int* out) {
    First& one = kit::block_shared<First>();
    First& two = kit::block_shared<First, struct Second>();
    int* dynamic = kit::dynamic_shared<int>();
    if (threadIdx.x == 0) {
        one.value = 1;
        two.value = 2;
        dynamic[0] = 3;
    }
    __syncthreads();
    if (threadIdx.x == 32) *out = one.value * 100 + two.value * 10 + dynamic[0];
}

ON_BOTH(80, EachTagHasStorageOfItsOwn) {
    Buffer<int> out(1);
    kit::launch("separate_storage", separate_storage, {.grid = 1, .block = 64, .dynamic_shared = 4}, Stream{},
                out.data());
    EXPECT_EQ(out.value(), 123);
}

// Each block publishes a number; each reads its neighbour's through distributed shared memory.
__global__ void exchange_in_cluster(int* out) {
    First& own = kit::block_shared<First>();
    if (threadIdx.x == 0) own.value = 100 + static_cast<int>(blockIdx.x);
    kit::cluster_sync();
    const unsigned neighbour = (kit::cluster_rank() + 1) % kit::cluster_size();
    if (threadIdx.x == 5) out[blockIdx.x] = kit::cluster_map(&own, neighbour)->value;
    kit::cluster_sync();
}

ON_BOTH(90, ClustersReadTheNeighboursSharedMemory) {
    in_several_orders([] {
        Buffer<int> out(8);
        kit::launch("exchange_in_cluster", exchange_in_cluster, {.grid = 8, .block = 64, .cluster = 4},
                    Stream{}, out.data());
        EXPECT_THAT(out.values(), ElementsAre(101, 102, 103, 100, 105, 106, 107, 104));
    });
}

__global__ void add_in_cluster(float* out) {
    Floats& sums = kit::block_shared<Floats>();
    if (threadIdx.x < 32) sums.values[threadIdx.x] = 0.0f;
    kit::cluster_sync();
    kit::atomic_add(&kit::cluster_map(&sums, 0)->values[threadIdx.x % 32], 1.0f);
    kit::cluster_sync();
    if (kit::cluster_rank() == 0 && threadIdx.x < 32) out[threadIdx.x] = sums.values[threadIdx.x];
}

ON_BOTH(90, AtomicsInDistributedSharedMemory) {
    in_several_orders([] {
        Buffer<float> out(32);
        kit::launch("add_in_cluster", add_in_cluster, {.grid = 2, .block = 64, .cluster = 2}, Stream{},
                    out.data());
        EXPECT_THAT(out.values(), Each(4.0f));
    });
}

// Warps 1 to 3 produce, warp 0 consumes, two rounds.
__global__ void produce_and_consume(int* out) {
    int* buffer = kit::dynamic_shared<int>();
    for (int round = 0; round < 2; ++round) {
        if (threadIdx.x >= 32) {
            buffer[threadIdx.x - 32] = static_cast<int>(threadIdx.x) + round;
            kit::named_barrier_arrive(1, 128);
            kit::named_barrier_sync(2, 128);
        } else {
            kit::named_barrier_sync(1, 128);
            for (int i = static_cast<int>(threadIdx.x); i < 96; i += 32) out[round * 96 + i] = buffer[i];
            kit::named_barrier_arrive(2, 128);
        }
    }
}

ON_BOTH(80, NamedBarriersBetweenProducersAndConsumers) {
    in_several_orders([] {
        Buffer<int> out(192);
        kit::launch("produce_and_consume", produce_and_consume,
                    {.grid = 1, .block = 128, .dynamic_shared = 96 * sizeof(int)}, Stream{}, out.data());
        const auto got = out.values();
        for (int i = 0; i < 192; ++i) ASSERT_EQ(got[i], i % 96 + 32 + i / 96);
    });
}

// The block that counts last adds up what the others wrote: fence, atomic, fence.
__global__ void last_block_sums(float* partial, unsigned* counter, float* out) {
    First& last = kit::block_shared<First>();
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = static_cast<float>(blockIdx.x + 1);
        __threadfence();
        last.value = kit::atomic_add(counter, 1u) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (!last.value || threadIdx.x != 1) return;
    float sum = 0.0f;
    for (unsigned i = 0; i < gridDim.x; ++i) sum += partial[i];
    *out = sum;
}

ON_BOTH(80, TheLastBlockSeesWhatTheOthersWrote) {
    in_several_orders([] {
        Buffer<float> partial(10);
        Buffer<unsigned> counter(1);
        Buffer<float> out(1);
        kit::launch("last_block_sums", last_block_sums, {.grid = 10, .block = 32}, Stream{}, partial.data(),
                    counter.data(), out.data());
        EXPECT_EQ(out.value(), 55.0f);
    });
}

__global__ void count_everything(int* counter, float* largest) {
    kit::atomic_add(counter, 1);
    kit::atomic_max(largest, static_cast<float>(blockIdx.x * blockDim.x + threadIdx.x));
}

ON_BOTH(80, AtomicsBetweenBlocks) {
    in_several_orders([] {
        Buffer<int> counter(1);
        Buffer<float> largest(1);
        kit::launch("count_everything", count_everything, {.grid = 7, .block = 50}, Stream{}, counter.data(),
                    largest.data());
        EXPECT_EQ(counter.value(), 350);
        EXPECT_EQ(largest.value(), 349.0f);
    });
}

__global__ void write_then_read(int* data, int* out, bool write) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (write) {
        data[i] = static_cast<int>(i);
    } else {
        out[i] = data[gridDim.x * blockDim.x - 1 - i];
    }
}

ON_BOTH(80, TheEndOfAKernelOrdersTheNext) {
    in_several_orders([] {
        Buffer<int> data(128), out(128);
        kit::launch("write", write_then_read, {.grid = 4, .block = 32}, Stream{}, data.data(), out.data(),
                    true);
        kit::launch("read", write_then_read, {.grid = 4, .block = 32}, Stream{}, data.data(), out.data(),
                    false);
        const auto got = out.values();
        for (int i = 0; i < 128; ++i) ASSERT_EQ(got[i], 127 - i);
    });
}

__global__ void exchange_in_warp(int* out) {
    int* values = kit::dynamic_shared<int>();
    values[threadIdx.x] = static_cast<int>(threadIdx.x);
    __syncwarp();
    out[threadIdx.x] = values[threadIdx.x ^ 1];
}

ON_BOTH(80, SyncwarpOrdersMemoryInTheWarp) {
    in_several_orders([] {
        Buffer<int> out(64);
        kit::launch("exchange_in_warp", exchange_in_warp, {.grid = 1, .block = 64, .dynamic_shared = 256},
                    Stream{}, out.data());
        const auto got = out.values();
        for (int i = 0; i < 64; ++i) ASSERT_EQ(got[i], i ^ 1);
    });
}

__global__ void some_exit(int* out) {
    if (threadIdx.x >= 40) return;
    out[threadIdx.x] = static_cast<int>(kit::ballot(true));
}

ON_BOTH(80, WarpsGoOnWithoutTheLanesThatExited) {
    in_several_orders([] {
        Buffer<int> out(40);
        kit::launch("some_exit", some_exit, {.grid = 1, .block = 64}, Stream{}, out.data());
        EXPECT_EQ(out.values()[0], -1);
        EXPECT_EQ(out.values()[32], 0xff);
    });
}

// The cluster meets without the warps that have left.
__global__ void meet_without_some(int* out) {
    First& own = kit::block_shared<First>();
    if (threadIdx.x == 0) own.value = 7 + static_cast<int>(kit::cluster_rank());
    if (threadIdx.x >= 32) return;
    kit::cluster_sync();
    if (threadIdx.x == 0) out[blockIdx.x] = kit::cluster_map(&own, kit::cluster_rank() ^ 1)->value;
    kit::cluster_sync();
}

ON_BOTH(90, ClustersMeetWithoutTheWarpsThatExited) {
    in_several_orders([] {
        Buffer<int> out(2);
        kit::launch("meet_without_some", meet_without_some, {.grid = 2, .block = 96, .cluster = 2}, Stream{},
                    out.data());
        EXPECT_THAT(out.values(), ElementsAre(8, 7));
    });
}

__global__ void counts(int* out) {
    const int count = __syncthreads_count(threadIdx.x % 3 == 0);
    const int some = __syncthreads_or(threadIdx.x == 77), all = __syncthreads_and(threadIdx.x != 77);
    if (threadIdx.x == 50) *out = count * 100 + some * 10 + all;
}

ON_BOTH(80, BarriersThatCount) {
    Buffer<int> out(1);
    kit::launch("counts", counts, {.grid = 1, .block = 99}, Stream{}, out.data());
    EXPECT_EQ(out.value(), 3310);
}

__global__ void wait_for_flag(unsigned* flag, int* data, int* out) {
    if (threadIdx.x == 0) {
        while (kit::atomic_add(flag, 0u) == 0) __nanosleep(20);
        __threadfence();
        *out = *data;
    } else if (threadIdx.x == 32) {
        *data = 42;
        __threadfence();
        kit::atomic_add(flag, 1u);
    }
}

ON_BOTH(80, AThreadCanWaitForAValueInMemory) {
    in_several_orders([] {
        Buffer<unsigned> flag(1);
        Buffer<int> data(1), out(1);
        kit::launch("wait_for_flag", wait_for_flag, {.grid = 1, .block = 64}, Stream{}, flag.data(),
                    data.data(), out.data());
        EXPECT_EQ(out.value(), 42);
    });
}

#if !defined(__CUDACC__)

__global__ void order_of_blocks(int* out, int* counter) {
    kit::dependency_wait();
    out[kit::atomic_add(counter, 1)] = static_cast<int>(blockIdx.x);
}

TEST_F(Emulator, OrdersAreRepeatableAndDiffer) {
    const auto blocks = [](uint64_t seed) {
        emulator::set_order(seed);
        Buffer<int> out(16);
        Buffer<int> counter(1);
        kit::launch("order_of_blocks", order_of_blocks, {.grid = 16, .block = 1, .dependent = true}, Stream{},
                    out.data(), counter.data());
        return out.values();
    };
    EXPECT_TRUE(std::ranges::is_sorted(blocks(0)));
    EXPECT_EQ(blocks(5), blocks(5));
    EXPECT_NE(blocks(5), blocks(6));
    EXPECT_THAT(blocks(5), testing::UnorderedElementsAreArray(blocks(0)));
}

#endif

ON_BOTH(80, ManySizesReuseTheSameFibers) {
    for (const unsigned threads : {1u, 1024u, 31u, 33u, 512u, 7u}) {
        Buffer<unsigned> out(3 * threads, ~0u);
        kit::launch("indices", indices, {.grid = 3, .block = threads}, Stream{}, out.data());
        const auto got = out.values();
        for (unsigned i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], i / threads * 1000 + i % threads);
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
