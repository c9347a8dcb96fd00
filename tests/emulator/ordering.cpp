// Planted faults of order: launches, streams, fences between proxies, the scope of a wait, barriers that a block leaves
// behind. The emulator must find each, and be silent without it.
#include "support.h"

#include "kit/ptx/barrier.cuh"
#include "kit/ptx/cluster.cuh"
#include "kit/ptx/mbarrier.cuh"
#include "kit/ptx/pdl.cuh"
#include "kit/ptx/proxy_fence.cuh"
#include "kit/ptx/store_async.cuh"
#include "kit/ptx/tma.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using test::Fault;
using test::fault_of;
using test::kNone;
using test::kPlanted;
using test::kTsan;
using test::names;
using test::races;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

// ---- what was there before a dependent launch ----

template <Fault F>
__global__ void add_one(const int* in, int* out) {
    const int early = F == kPlanted ? in[threadIdx.x] : 0;
    kit::dependency_wait();
    out[threadIdx.x] = (F == kPlanted ? early : in[threadIdx.x]) + 1;
}

template <Fault F>
std::string run_dependent(bool dependent) {
    std::vector<int> first(32, 1), second(32), third(32);
    return fault_of([&] {
        kit::launch("add_one", add_one<kNone>, {.block = 32, .dependent = dependent}, Stream{}, first.data(),
                    second.data());
        kit::launch("add_one", add_one<F>, {.block = 32, .dependent = dependent}, Stream{}, second.data(),
                    third.data());
        EXPECT_EQ(third[31], 3);
    });
}

TEST_F(Emulator, AReadBeforeDependencyWait) {
    EXPECT_THAT(run_dependent<kNone>(true), IsEmpty());
    EXPECT_THAT(run_dependent<kPlanted>(false), IsEmpty());
    ONLY_IN(kTsan);
    EXPECT_THAT(run_dependent<kPlanted>(true), races("add_one"));
}

// One thread waits and tells the others by a barrier.
template <Fault F>
__global__ void add_after_barrier(const int* in, int* out) {
    if (threadIdx.x == 0) kit::dependency_wait();
    if (F == kNone) __syncthreads();
    out[threadIdx.x] = in[threadIdx.x] + 1;
}

template <Fault F>
std::string run_after_barrier() {
    std::vector<int> in(64, 1), out(64);
    return fault_of([&] {
        kit::launch("add_after_barrier", add_after_barrier<F>, {.block = 64, .dependent = true}, Stream{},
                    in.data(), out.data());
    });
}

TEST_F(Emulator, DependencyWaitOfOneThreadIsForThoseInOrderWithIt) {
    EXPECT_THAT(run_after_barrier<kNone>(), IsEmpty());
    ONLY_IN(kTsan);
    EXPECT_THAT(run_after_barrier<kPlanted>(), races("add_after_barrier"));
}

__global__ void nothing() {}

// What an earlier launch has waited for is of no use to a later one.
TEST_F(Emulator, EachDependentLaunchWaits) {
    const kit::LaunchShape dependent{.block = 32, .dependent = true};
    EXPECT_THAT(run_dependent<kNone>(true), IsEmpty());
    EXPECT_THAT(fault_of([&] { kit::launch("nothing", nothing, dependent, Stream{}); }),
                HasSubstr("no thread called dependency_wait"));
    EXPECT_THAT(fault_of([&] { kit::launch("nothing", nothing, {.block = 32}, Stream{}); }), IsEmpty());
}

// ---- streams ----

TEST_F(Emulator, ALaunchOnAnotherStreamThanTheContexts) {
    int own = 0, other = 0;
    const auto launch_on = [](void* stream) {
        return fault_of([&] { kit::launch("nothing", nothing, {.block = 32}, Stream{stream}); });
    };
    EXPECT_THAT(launch_on(nullptr), IsEmpty());
    {
        const emulator::StreamScope scope(&own);
        EXPECT_THAT(launch_on(&own), IsEmpty());
        EXPECT_THAT(launch_on(nullptr), HasSubstr("on another stream than its context's"));
        EXPECT_THAT(launch_on(&other), HasSubstr("on another stream than its context's"));
    }
    EXPECT_THAT(launch_on(&other), IsEmpty());
}

// ---- fences between proxies ----

enum class Publish { right, by_the_last_alone, after_the_arrival };

// Every thread writes; one stores what all have written.
template <Publish F>
__global__ void publish(int* out) {
    int* values = reinterpret_cast<int*>(kit::align_shared<128>(kit::dynamic_shared<char>()));
    values[threadIdx.x] = static_cast<int>(threadIdx.x);
    if (F != Publish::by_the_last_alone || threadIdx.x == 31) kit::fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        kit::bulk_store(out, values, 128);
        kit::bulk_commit();
        kit::bulk_wait<0>();
    }
}

TEST_F(Emulator, AFenceIsForWhatItsOwnThreadHasWritten) {
    const auto run = [](auto kernel) {
        std::vector<int> out(32);
        return fault_of([&] {
            kit::launch("publish", kernel, {.block = 32, .dynamic_shared = 256}, Stream{}, out.data());
        });
    };
    EXPECT_THAT(run(publish<Publish::right>), IsEmpty());
    ONLY_IN(kTsan);  // the last thread's turn comes after all others have written: their values do arrive
    EXPECT_THAT(run(publish<Publish::by_the_last_alone>), races("publish"));
}

struct alignas(16) Values {
    int at[32];
};

// The same of a static array; one element is written after its fence.
template <Fault F>
__global__ void publish_static(int* out) {
    Values& values = kit::block_shared<Values>();
    values.at[threadIdx.x] = static_cast<int>(threadIdx.x);
    kit::fence_proxy_async();
    __syncthreads();
    if (threadIdx.x != 0) return;
    if (F == kPlanted) values.at[31] = 7;
    kit::bulk_store(out, values.at, 128);
    kit::bulk_commit();
    kit::bulk_wait<0>();
}

TEST_F(Emulator, AFenceIsForStaticArraysToo) {
    std::vector<int> out(32);
    const auto run = [&](auto kernel) {
        return fault_of([&] { kit::launch("publish", kernel, {.block = 32}, Stream{}, out.data()); });
    };
    EXPECT_THAT(run(publish_static<kNone>), IsEmpty());
    EXPECT_EQ(out[31], 31);
    EXPECT_THAT(run(publish_static<kPlanted>), names("publish", "without fence_proxy_async"));
}

// Lane 0 of the second warp writes and arrives; the first warp's stores.
template <Publish F>
__global__ void hand_over(int* out) {
    kit::Mbarrier& written = kit::block_shared<kit::Mbarrier>();
    int* values = reinterpret_cast<int*>(kit::align_shared<128>(kit::dynamic_shared<char>()));
    if (threadIdx.x == 0) {
        kit::mbarrier_init(&written, 1);
        kit::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        kit::mbarrier_wait(&written, 0);
        kit::bulk_store(out, values, 16);
        kit::bulk_commit();
        kit::bulk_wait<0>();
    } else if (threadIdx.x == 32) {
        for (int i = 0; i < 4; ++i) values[i] = i;
        if (F != Publish::after_the_arrival) kit::fence_proxy_async();
        kit::mbarrier_arrive(&written);
        if (F == Publish::after_the_arrival) kit::fence_proxy_async();
    }
}

TEST_F(Emulator, AnArrivalThatEndsAPhaseLetsOthersRunAtOnce) {
    const auto run = [](auto kernel) {
        std::vector<int> out(4);
        return fault_of([&] {
            kit::launch("hand_over", kernel, {.block = 64, .dynamic_shared = 256}, Stream{}, out.data());
        });
    };
    EXPECT_THAT(run(hand_over<Publish::right>), IsEmpty());
    EXPECT_THAT(run(hand_over<Publish::after_the_arrival>), names("hand_over", "without fence_proxy_async"));
}

// The same by a named barrier: its last thread only arrives.
template <Publish F>
__global__ void hand_over_by_name(int* out) {
    int* values = reinterpret_cast<int*>(kit::align_shared<128>(kit::dynamic_shared<char>()));
    if (threadIdx.x < 32) {
        kit::named_barrier_sync(1, 64);
        if (threadIdx.x > 0) return;
        kit::bulk_store(out, values, 128);
        kit::bulk_commit();
        kit::bulk_wait<0>();
        return;
    }
    values[threadIdx.x - 32] = static_cast<int>(threadIdx.x);
    if (F != Publish::after_the_arrival) kit::fence_proxy_async();
    kit::named_barrier_arrive(1, 64);
    if (F == Publish::after_the_arrival) kit::fence_proxy_async();
}

TEST_F(Emulator, AnArrivalThatEndsANamedBarrierLetsOthersRunAtOnce) {
    const auto run = [](auto kernel) {
        std::vector<int> out(32);
        return fault_of([&] {
            kit::launch("by_name", kernel, {.block = 64, .dynamic_shared = 256}, Stream{}, out.data());
        });
    };
    EXPECT_THAT(run(hand_over_by_name<Publish::right>), IsEmpty());
    EXPECT_THAT(run(hand_over_by_name<Publish::after_the_arrival>),
                names("by_name", "without fence_proxy_async"));
}

// ---- the scope of a wait ----

enum class Scope { right, waits_for_its_block, arrives_silently, arrives_there };

// Block 1 writes into block 0, which waits for it.
template <Scope F>
__global__ void __launch_bounds__(32) send(int* out) {
    kit::Mbarrier& arrived = kit::block_shared<kit::Mbarrier>();
    int& value = *kit::dynamic_shared<int>();
    const unsigned rank = kit::cluster_rank();
    if (threadIdx.x == 0) {
        kit::mbarrier_init(&arrived, 1);
        kit::fence_mbarrier_init();
    }
    kit::cluster_sync();
    if (threadIdx.x == 0 && rank == 1) {
        *kit::cluster_map(&value, 0) = 7;
        if (F == Scope::arrives_there) kit::mbarrier_arrive(kit::cluster_map(&arrived, 0));
        kit::mbarrier_arrive_remote<F != Scope::arrives_silently>(&arrived, 0);
    }
    if (threadIdx.x == 0 && rank == 0) {
        kit::mbarrier_wait<F != Scope::waits_for_its_block>(&arrived, 0);
        *out = value;
    }
    kit::cluster_sync();
}

TEST_F(Emulator, AWaitWithoutTheClustersScopeTakesOverNothingOfOtherBlocks) {
    const auto run = [](auto kernel) {
        int out = 0;
        return fault_of([&] {
            kit::launch("send", kernel, {.grid = 2, .block = 32, .cluster = 2, .dynamic_shared = 16},
                        Stream{}, &out);
            EXPECT_EQ(out, 7);
        });
    };
    EXPECT_THAT(run(send<Scope::right>), IsEmpty());
    EXPECT_THAT(run(send<Scope::arrives_there>), names("send", "that is mbarrier_arrive_remote"));
    ONLY_IN(kTsan);
    EXPECT_THAT(run(send<Scope::waits_for_its_block>), races("send"));
    EXPECT_THAT(run(send<Scope::arrives_silently>), races("send"));
}

enum class Reuse { right, does_not_wait, reads_on };

// Block 1 reads from its memory, says so without publishing anything, and block 0 stores there.
template <Reuse F>
__global__ void __launch_bounds__(32) reuse(float* out) {
    kit::Mbarrier &free = kit::block_shared<kit::Mbarrier, Reuse>(),
                  &stored = kit::block_shared<kit::Mbarrier>();
    float4& value = *kit::dynamic_shared<float4>();
    const unsigned rank = kit::cluster_rank();
    if (threadIdx.x == 0) {
        value = {1, 2, 3, 4};
        kit::mbarrier_init(&free, 1);
        kit::mbarrier_init(&stored, 1);
        kit::fence_mbarrier_init();
    }
    kit::cluster_sync();
    if (threadIdx.x == 0 && rank == 1) {
        if (F != Reuse::reads_on) out[0] = value.x;
        kit::mbarrier_arrive_expect(&stored, sizeof value);
        kit::mbarrier_arrive_remote<false>(&free, 0);
        if (F == Reuse::reads_on) out[0] = value.x;
        kit::mbarrier_wait<true>(&stored, 0);
        out[1] = value.x;
    }
    if (threadIdx.x == 0 && rank == 0) {
        if (F != Reuse::does_not_wait) kit::mbarrier_wait(&free, 0);
        kit::store_async(&value, {5, 6, 7, 8}, &stored, 1);
        if (F == Reuse::does_not_wait) kit::mbarrier_wait(&free, 0);
    }
    kit::cluster_sync();
}

TEST_F(Emulator, WhatAnotherBlockHasReadMayBeStoredOverByThoseWhoWaitedForIt) {
    const auto run = [](auto kernel) {
        float out[2] = {};
        return fault_of([&] {
            kit::launch("reuse", kernel, {.grid = 2, .block = 32, .cluster = 2, .dynamic_shared = 32},
                        Stream{}, &out[0]);
            EXPECT_EQ(out[1], 5);
        });
    };
    EXPECT_THAT(run(reuse<Reuse::right>), IsEmpty());
    ONLY_IN(kTsan);
    EXPECT_THAT(run(reuse<Reuse::does_not_wait>), races("reuse"));
    EXPECT_THAT(run(reuse<Reuse::reads_on>), races("reuse"));
}

// ---- barriers that a block leaves behind ----

enum class Leave { right, named_half, phase_half, bytes, released_twice };

template <Leave F>
__global__ void leave() {
    kit::Mbarrier& stage = kit::block_shared<kit::Mbarrier>();
    if (threadIdx.x == 0) {
        kit::mbarrier_init(&stage, 2);
        kit::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x >= 32) {
        kit::named_barrier_arrive(1, 64);
    } else if (F != Leave::named_half) {
        kit::named_barrier_sync(1, 64);
    }
    if (threadIdx.x % 32 == 0 && (F != Leave::phase_half || threadIdx.x == 0)) {
        F == Leave::bytes ? kit::mbarrier_arrive_expect(&stage, 16) : kit::mbarrier_arrive(&stage);
        if (F == Leave::released_twice) kit::mbarrier_arrive(&stage);
    }
}

TEST_F(Emulator, BarriersLeftInTheMiddle) {
    const auto run = [](auto kernel) {
        return fault_of([&] { kit::launch("leave", kernel, {.block = 64}, Stream{}); });
    };
    EXPECT_THAT(run(leave<Leave::right>), IsEmpty());
    EXPECT_THAT(run(leave<Leave::named_half>),
                names("leave", "named barrier 1 half arrived at: 32 of 64 threads"));
    EXPECT_THAT(run(leave<Leave::phase_half>),
                AllOf(names("leave", "ends in the middle of a phase"), HasSubstr("1 of 2 arrivals")));
    EXPECT_THAT(run(leave<Leave::bytes>), names("leave", "ends in the middle of a phase"));
    EXPECT_THAT(run(leave<Leave::released_twice>), names("leave", "released twice"));
}

// Bytes that come and that nobody expects.
template <Fault F>
__global__ void unexpected(const float* in) {
    kit::Mbarrier& stage = kit::block_shared<kit::Mbarrier>();
    kit::mbarrier_init(&stage, 1);
    kit::fence_mbarrier_init();
    if (F == kNone) kit::mbarrier_arrive_expect(&stage, 16);
    kit::bulk_load(kit::align_shared<128>(kit::dynamic_shared<char>()), in, 16, &stage);
    for (int i = 0; i < 300; ++i) __nanosleep(1);  // until they are there
    if (F == kNone) kit::mbarrier_wait(&stage, 0);
}

TEST_F(Emulator, BytesLeftInTheMiddle) {
    alignas(16) const float in[4] = {};
    const kit::LaunchShape shape{.block = 1, .dynamic_shared = 256};
    const auto run = [&](auto kernel) {
        return fault_of([&] { kit::launch("unexpected", kernel, shape, Stream{}, &in[0]); });
    };
    EXPECT_THAT(run(unexpected<kNone>), IsEmpty());
    EXPECT_THAT(run(unexpected<kPlanted>),
                AllOf(names("unexpected", "ends in the middle of a phase"), HasSubstr("-16 bytes")));
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
