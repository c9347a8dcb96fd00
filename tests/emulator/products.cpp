// Products of wgmma and bulk copies in flight, several at once: what they may share, and planted faults of what they may
// not. The emulator must find each, and be silent without it.
#include "support.h"

#include "kit/ptx/cluster.cuh"
#include "kit/ptx/proxy_fence.cuh"
#include "kit/ptx/tma.cuh"
#include "kit/ptx/wgmma.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using kit::Swizzle;
using test::fault_of;
using test::kAsan;
using test::kTsan;
using test::names;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kTile = 80 * 64;  // elements: 64 rows of A and 16 of B
constexpr size_t kShared = kTile * 2 + 1024;

// A tile of ones, which a warpgroup has written: every sum of a product is 16.
__device__ kit::bf16* tile_of_ones() {
    auto* tile = reinterpret_cast<kit::bf16*>(kit::align_shared<1024>(kit::dynamic_shared<char>()));
    for (int i = static_cast<int>(threadIdx.x); i < kTile; i += 128) tile[i] = kit::bf16(1.0f);
    kit::fence_proxy_async();
    __syncthreads();
    return tile;
}

struct Operands {
    kit::MatrixDescriptor a, b;
};

__device__ Operands operands_of(const kit::bf16* tile) {
    return {kit::matrix_descriptor(tile, Swizzle::bytes128, 1024),
            kit::matrix_descriptor(tile + 64 * 64, Swizzle::bytes128, 1024)};
}

using Sums = float[8];

__device__ Sums& sums_at(float* sums) { return *reinterpret_cast<Sums*>(sums); }

// ---- accumulators ----

enum class Read { right, newest_too_early };

// Two products, the first on accumulators 8 to 15 of 24, the second on those from kSecond on.
template <int kSecond, Read F>
__global__ void two_products(float* out) {
    const auto [a, b] = operands_of(tile_of_ones());
    float sums[24] = {};
    Sums &first = sums_at(sums + 8), &second = sums_at(sums + kSecond);
    kit::wgmma_fence();
    kit::wgmma<kit::bf16, kit::bf16, 16>(first, a, b, false);
    kit::wgmma_commit();
    kit::wgmma<kit::bf16, kit::bf16, 16>(second, a, b, kSecond == 8);
    kit::wgmma_commit();
    float early = 16.0f;
    if (kSecond != 8) {
        kit::wgmma_wait<1>();
        if (F == Read::newest_too_early) early = second[7];
    }
    for (int i = 0; i < 8 && kSecond != 8; ++i) out[threadIdx.x * 16 + i] = first[i];
    kit::wgmma_wait<0>();
    for (int i = 0; i < 8 && kSecond == 8; ++i) out[threadIdx.x * 16 + i] = first[i] - 16.0f;
    for (int i = 0; i < 8; ++i) out[threadIdx.x * 16 + 8 + i] = kSecond == 8 ? 16.0f : second[i];
    if (F == Read::newest_too_early) out[threadIdx.x * 16] = early;
}

template <int kSecond, Read F = Read::right>
std::string run_two_products() {
    for (uint64_t seed = 0; seed < 40; ++seed) {
        emulator::set_order(seed);
        std::vector<float> out(2048);
        const std::string fault = fault_of([&] {
            kit::launch("two", two_products<kSecond, F>, {.block = 128, .dynamic_shared = kShared}, Stream{},
                        out.data());
        });
        if (!fault.empty()) return fault;
        if (out != std::vector<float>(2048, 16.0f)) return "wrong";
    }
    return "";
}

TEST_F(Emulator, ProductsInFlightOnOtherAccumulators) {
    EXPECT_THAT(run_two_products<0>(), IsEmpty());
    EXPECT_THAT(run_two_products<16>(), IsEmpty());
    EXPECT_EQ((run_two_products<0, Read::newest_too_early>()), "wrong");
    EXPECT_EQ((run_two_products<16, Read::newest_too_early>()), "wrong");
    for (const std::string& fault :
         {run_two_products<1>(), run_two_products<4>(), run_two_products<12>(), run_two_products<15>()}) {
        EXPECT_THAT(fault, names("two", "part of others that are in flight"));
    }
}

TEST_F(Emulator, ProductsOfAWarpgroupAreMadeInTheirOrder) { EXPECT_THAT(run_two_products<8>(), IsEmpty()); }

// ---- shared memory that a product reads ----

enum class Refill { a, b, waits };

// The same tile is asked for again: A's rows or B's, while they are multiplied.
template <Refill F>
__global__ void refill(const kit::bf16* in) {
    kit::Mbarrier& landed = kit::block_shared<kit::Mbarrier>();
    kit::bf16* tile = tile_of_ones();
    const auto [a, b] = operands_of(tile);
    if (threadIdx.x == 0) {
        kit::mbarrier_init(&landed, 1);
        kit::fence_mbarrier_init();
    }
    float sums[8] = {};
    kit::wgmma_fence();
    kit::wgmma<kit::bf16, kit::bf16, 16>(sums, a, b, false);
    kit::wgmma_commit();
    if (F == Refill::waits) kit::wgmma_wait<0>();
    __syncthreads();
    if (threadIdx.x == 0) {
        kit::mbarrier_arrive_expect(&landed, 1024);
        kit::bulk_load(F == Refill::a ? tile : tile + 64 * 64, in, 1024, &landed);
    }
    kit::wgmma_wait<0>();
    kit::mbarrier_wait(&landed, 0);
}

template <Refill F>
std::string run_refill() {
    std::vector<kit::bf16> in(512);
    return fault_of([&] {
        kit::launch("refill", refill<F>, {.block = 128, .dynamic_shared = kShared}, Stream{}, in.data());
    });
}

TEST_F(Emulator, NeitherOperandMayBeOverwrittenWhileItIsMultiplied) {
    EXPECT_THAT(run_refill<Refill::waits>(), IsEmpty());
    const auto found =
        names("refill", "bulk_load overwrites shared memory that is still read by wgmma (products.cpp:");
    EXPECT_THAT(run_refill<Refill::a>(), found);
    EXPECT_THAT(run_refill<Refill::b>(), found);
}

__global__ void pass_on(const int* in, int* out, bool waits) {
    kit::Mbarrier& landed = kit::block_shared<kit::Mbarrier>();
    char* values = kit::align_shared<128>(kit::dynamic_shared<char>());
    kit::mbarrier_init(&landed, 1);
    kit::fence_mbarrier_init();
    kit::mbarrier_arrive_expect(&landed, 128);
    kit::bulk_load(values, in, 128, &landed);
    if (waits) kit::mbarrier_wait(&landed, 0);
    kit::bulk_store(out, values, 128);
    kit::bulk_commit();
    kit::bulk_wait<0>();
    kit::mbarrier_wait(&landed, 0);
}

TEST_F(Emulator, ACopyOnItsWayMustNotBePassedOn) {
    std::vector<int> in(32, 5), out(32);
    const auto run = [&](bool waits) {
        return fault_of([&] {
            kit::launch("pass_on", pass_on, {.block = 1, .dynamic_shared = 256}, Stream{}, in.data(),
                        out.data(), waits);
        });
    };
    EXPECT_THAT(run(true), IsEmpty());
    EXPECT_EQ(out, in);
    EXPECT_THAT(
        run(false),
        names("pass_on", "bulk_store reads shared memory into which is on its way bulk_load (products.cpp:"));
}

// ---- who issues it, and where the operands are ----

enum class Diverge { right, lines, columns };

template <Diverge F>
__global__ void diverge() {
    const auto operands = operands_of(tile_of_ones());
    float sums[8] = {};
    kit::wgmma_fence();
    const auto issue = [&](emulator::Where where = emulator::Where::current()) {
        kit::wgmma<kit::bf16, kit::bf16, 16>(sums, operands.a, operands.b, false, where);
    };
    if (F == Diverge::right) issue();
    if (F == Diverge::columns) threadIdx.x < 64 ? issue() : issue();
    if (F == Diverge::lines && threadIdx.x < 64) issue();
    if (F == Diverge::lines && threadIdx.x >= 64) issue();
    kit::wgmma_commit();
    kit::wgmma_wait<0>();
}

TEST_F(Emulator, AWarpgroupMeetsAtOneProduct) {
    const auto run = [](auto kernel) {
        return fault_of(
            [&] { kit::launch("k", kernel, {.block = 128, .dynamic_shared = kShared}, Stream{}); });
    };
    EXPECT_THAT(run(diverge<Diverge::right>), IsEmpty());
    EXPECT_THAT(run(diverge<Diverge::lines>), names("k", "divergent warpgroup"));
    EXPECT_THAT(run(diverge<Diverge::columns>), names("k", "divergent warpgroup"));
}

enum class Differ { shapes, groups };

// The same accumulators in another shape; a group more of some warps.
template <Differ F>
__global__ void differ() {
    const auto [a, b] = operands_of(tile_of_ones());
    float sums[16] = {};
    kit::wgmma_fence();
    kit::wgmma<kit::bf16, kit::bf16, 16>(sums_at(sums), a, b, false);
    if (F == Differ::groups && threadIdx.x < 64) kit::wgmma_commit();
    if (F == Differ::shapes) kit::wgmma<kit::bf16, kit::bf16, 32>(sums, a, a, true);
    if (F == Differ::groups) kit::wgmma<kit::bf16, kit::bf16, 16>(sums_at(sums), a, b, true);
    kit::wgmma_commit();
    kit::wgmma_wait<0>();
}

TEST_F(Emulator, ProductsOfOtherShapesGroupsAndWarps) {
    const auto run = [](auto kernel, unsigned threads = 128) {
        return fault_of(
            [&] { kit::launch("k", kernel, {.block = threads, .dynamic_shared = kShared}, Stream{}); });
    };
    EXPECT_THAT(run(differ<Differ::shapes>), names("k", "taken again in another shape"));
    EXPECT_THAT(run(differ<Differ::groups>), names("k", "has not committed as many groups as the rest"));
    EXPECT_THAT(run(diverge<Diverge::right>, 96), names("k", "no four warps for this warpgroup"));
    EXPECT_THAT(run(diverge<Diverge::right>, 224), names("k", "no four warps for this warpgroup"));
}

// Descriptors of B `offset` bytes from the first of dynamic shared memory, or of what is not dynamic.
enum class Describe { dynamic, fixed };

template <Describe F>
__global__ void describe(int offset, bool multiplies) {
    const char* place = kit::dynamic_shared<char>() + offset;
    if (F == Describe::fixed) place = reinterpret_cast<char*>(&kit::block_shared<test::Floats>());
    const auto b = kit::matrix_descriptor(place, Swizzle::none, 128, 128);
    if (!multiplies) return;
    const uint32_t a[4] = {};
    float sums[8] = {};
    kit::wgmma_fence();
    kit::wgmma<kit::bf16, kit::bf16, 16>(sums, a, b, false);
    kit::wgmma_commit();
    kit::wgmma_wait<0>();
}

TEST_F(Emulator, ADescriptorIsOfDynamicSharedMemory) {
    constexpr int kBytes = 4096;
    const auto run = [](auto kernel, int offset, bool multiplies) {
        const kit::LaunchShape shape{.block = multiplies ? 128u : 1u, .dynamic_shared = kBytes};
        return fault_of([&] { kit::launch("k", kernel, shape, Stream{}, offset, multiplies); });
    };
    EXPECT_THAT(run(describe<Describe::dynamic>, 0, false), IsEmpty());
    EXPECT_THAT(run(describe<Describe::dynamic>, kBytes, false), IsEmpty());  // a place to count back from
    const auto outside = names("k", "outside of this block's dynamic shared memory");
    EXPECT_THAT(run(describe<Describe::dynamic>, -16, false), outside);
    EXPECT_THAT(run(describe<Describe::dynamic>, kBytes + 16, false), outside);
    EXPECT_THAT(run(describe<Describe::fixed>, 0, false), outside);
    EXPECT_THAT(run(describe<Describe::dynamic>, kBytes, true),
                names("k", "reaches byte 4096 of 4096 bytes"));
}

// Of two copies of 16 bytes one alone is expected: the phase ends without the other.
__global__ void expect_one_of_two(const int* in, bool both) {
    kit::Mbarrier& landed = kit::block_shared<kit::Mbarrier>();
    char* values = kit::align_shared<128>(kit::dynamic_shared<char>());
    kit::mbarrier_init(&landed, 1);
    kit::fence_mbarrier_init();
    kit::mbarrier_arrive_expect(&landed, both ? 32 : 16);
    kit::bulk_load(values, in, 16, &landed);
    kit::bulk_load(values + 16, in, 16, &landed);
    kit::mbarrier_wait(&landed, 0);
    kit::mbarrier_arrive_expect(&landed, both ? 0 : 16);
    kit::mbarrier_wait(&landed, 1);
}

TEST_F(Emulator, APhaseThatEndsWithoutACopyIssuedInIt) {
    alignas(16) const int in[4] = {};
    const auto run = [&](bool both) {
        return fault_of([&] {
            kit::launch("one", expect_one_of_two, {.block = 1, .dynamic_shared = 256}, Stream{}, &in[0],
                        both);
        });
    };
    EXPECT_THAT(run(true), IsEmpty());
    EXPECT_THAT(run(false), names("one", "was issued in phase 0, which has ended without it"));
}

// ---- copies for other blocks ----

struct Two {
    kit::Mbarrier at[2];
};

struct alignas(128) Box {
    char bytes[512];
};

// Asks for a copy into the blocks of `ranks`, with the fault before the other is there.
template <bool kFixed>
__global__ void load_for_both(const __grid_constant__ kit::TensorMap map, bool waits, uint16_t ranks) {
    Two& landed = kit::block_shared<Two>();
    char* box = kFixed ? kit::block_shared<Box>().bytes : kit::align_shared<128>(kit::dynamic_shared<char>());
    if (threadIdx.x == 0) {
        kit::mbarrier_init(&landed.at[1], 1);
        kit::fence_mbarrier_init();
        kit::mbarrier_arrive_expect(&landed.at[1], 512);
    }
    if (waits) kit::cluster_sync();
    if (threadIdx.x == 0 && kit::cluster_rank() == 0) {
        kit::tma_load_multicast(box, map, &landed.at[1], {0, 0}, ranks);
    }
    kit::mbarrier_wait(&landed.at[1], 0);
    kit::cluster_sync();
}

TEST_F(Emulator, ACopyForAnotherBlockNeedsItsMemoryAndBarrier) {
    alignas(16) static std::array<char, 512> data;
    kit::TensorLayout layout{.data = data.data(), .axes = 2, .swizzle = Swizzle::none};
    layout.size[0] = layout.box[0] = 64, layout.size[1] = layout.box[1] = 4;
    layout.stride[0] = 2, layout.stride[1] = 128;
    const auto map = kit::tensor_map("test", layout);
    const auto run = [&](auto kernel, bool waits, uint16_t ranks = 0b11) {
        const kit::LaunchShape shape{.grid = 2, .block = 32, .cluster = 2, .dynamic_shared = 2048};
        return fault_of([&] { kit::launch("both", kernel, shape, Stream{}, map, waits, ranks); });
    };
    EXPECT_THAT(run(load_for_both<false>, true), IsEmpty());
    EXPECT_THAT(run(load_for_both<true>, true), IsEmpty());
    EXPECT_THAT(run(load_for_both<false>, true, 0), names("both", "to the blocks 0x0 of a cluster of 2"));
    EXPECT_THAT(run(load_for_both<false>, true, 0b111), names("both", "to the blocks 0x7 of a cluster of 2"));
    EXPECT_THAT(run(load_for_both<true>, false, 0b10), names("both", "no such shared memory in the block"));
    if (kAsan) GTEST_SKIP() << "dies of the first byte that the copy would write";
    EXPECT_THAT(run(load_for_both<false>, false), names("both", "no such barrier in the block"));
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
