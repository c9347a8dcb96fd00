// Planted faults of asynchronous operations: mbarriers, bulk copies, wgmma. The emulator must find each, and
// be silent without it.
#include "support.h"

#include <array>

#include "kit/ptx/cluster.cuh"
#include "kit/ptx/proxy_fence.cuh"
#include "kit/ptx/tma.cuh"
#include "kit/ptx/wgmma.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using kit::Swizzle;
using test::fault_of;
using test::kTsan;
using test::names;
using test::races;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;

struct Barriers {
    kit::Mbarrier full[2], empty[2];
};

// ---- a ring of two slots: a producer's thread, and a warp that adds up what comes ----

enum class Ring {
    right,
    too_few_bytes,
    too_many_bytes,
    arrives_once_more,
    no_init_fence,
    not_initialised,
    overwritten_barrier,
    reads_without_waiting,
    refills_without_waiting,
    releases_before_reading,
    waits_for_the_wrong_parity,
    ends_too_early,
};

template <Ring F>
__global__ void add_up(const int* in, int* out, int runs) {
    constexpr unsigned kBytes = 256;
    Barriers& b = kit::block_shared<Barriers>();
    char* ring = kit::align_shared<128>(kit::dynamic_shared<char>());
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < 2; ++slot) {
            if (F != Ring::not_initialised) kit::mbarrier_init(&b.full[slot], 1);
            kit::mbarrier_init(&b.empty[slot], 32);
        }
        if (F != Ring::no_init_fence) kit::fence_mbarrier_init();
        if (F == Ring::overwritten_barrier) b.full[1] = 0;
    }
    __syncthreads();
    if (threadIdx.x == 32) {
        for (int run = 0; run < runs; ++run) {
            const int slot = run % 2;
            if (run >= 2 && F != Ring::refills_without_waiting) {
                kit::mbarrier_wait(&b.empty[slot], static_cast<unsigned>(run / 2 - 1) & 1);
            }
            const unsigned bytes = F == Ring::too_few_bytes    ? kBytes - 16
                                   : F == Ring::too_many_bytes ? kBytes + 16
                                                               : kBytes;
            kit::mbarrier_arrive_expect(&b.full[slot], bytes);
            kit::bulk_load(ring + slot * kBytes, in + run * 64, kBytes, &b.full[slot]);
            if (F == Ring::arrives_once_more) kit::mbarrier_arrive(&b.full[slot]);
        }
        if (F == Ring::ends_too_early) return;
    }
    if (threadIdx.x >= 32) return;
    if (F == Ring::ends_too_early) return;
    int sum = 0;
    for (int run = 0; run < runs; ++run) {
        const int slot = run % 2;
        unsigned parity = static_cast<unsigned>(run / 2) & 1;
        if (F == Ring::waits_for_the_wrong_parity) parity ^= 1;
        if (F != Ring::reads_without_waiting) kit::mbarrier_wait(&b.full[slot], parity);
        if (F == Ring::releases_before_reading) kit::mbarrier_arrive(&b.empty[slot]);
        const int* values = reinterpret_cast<const int*>(ring + slot * kBytes);
        sum += values[threadIdx.x] + values[threadIdx.x + 32];
        if (F != Ring::releases_before_reading) kit::mbarrier_arrive(&b.empty[slot]);
    }
    out[threadIdx.x] = sum;
}

template <Ring F>
std::vector<int> run_ring() {
    std::vector<int> in(6 * 64), out(32);
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<int>(i * i % 97);
    kit::launch("add_up", add_up<F>, {.grid = 1, .block = 64, .dynamic_shared = 768}, Stream{}, in.data(),
                out.data(), F == Ring::ends_too_early ? 2 : 6);
    return out;
}

// What the launch says in any of some orders: empty if nothing, or "wrong" where only the result shows it.
template <class Run>
std::string found(Run run) {
    emulator::set_order(0);
    const auto right = run_ring<Ring::right>();
    for (const uint64_t seed : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}) {
        emulator::set_order(seed);
        std::vector<int> result;
        const std::string fault = fault_of([&] { result = run(); });
        if (!fault.empty()) return fault;
        if (result != right) return "wrong";
    }
    return "";
}

TEST_F(Emulator, ARingOfBulkCopies) { EXPECT_THAT(found(&run_ring<Ring::right>), IsEmpty()); }

TEST_F(Emulator, WrongBytesOfTransactions) {
    EXPECT_THAT(found(&run_ring<Ring::too_few_bytes>),
                names("add_up", "16 bytes of transactions more than were expected"));
    EXPECT_THAT(found(&run_ring<Ring::too_many_bytes>), names("add_up", "deadlock"));
    EXPECT_THAT(found(&run_ring<Ring::too_many_bytes>),
                HasSubstr("0 of 1 arrivals and 16 bytes of transactions to come"));
    EXPECT_THAT(found(&run_ring<Ring::arrives_once_more>), names("add_up", "an arrival too many"));
}

TEST_F(Emulator, MbarriersThatAreNotReady) {
    EXPECT_THAT(found(&run_ring<Ring::no_init_fence>), names("add_up", "no fence_mbarrier_init"));
    EXPECT_THAT(found(&run_ring<Ring::not_initialised>), names("add_up", "no initialised mbarrier"));
    EXPECT_THAT(found(&run_ring<Ring::overwritten_barrier>), names("add_up", "was written over"));
}

TEST_F(Emulator, CopiesThatNobodyWaitedFor) {
    EXPECT_THAT(found(&run_ring<Ring::reads_without_waiting>),
                AnyOf("wrong", HasSubstr("nobody has waited"), races("add_up")));
    EXPECT_THAT(found(&run_ring<Ring::waits_for_the_wrong_parity>),
                AnyOf("wrong", races("add_up"), HasSubstr("deadlock"), HasSubstr("an arrival too many")));
    EXPECT_THAT(
        found(&run_ring<Ring::refills_without_waiting>),
        AnyOf(HasSubstr("an arrival too many"), "wrong", races("add_up"), names("add_up", "on its way")));
    EXPECT_THAT(found(&run_ring<Ring::ends_too_early>), names("add_up", "the block ends while bulk_load"));
}

TEST_F(Emulator, ASlotReleasedTooEarlyIsARace) {
    ONLY_IN(kTsan);
    EXPECT_THAT(found(&run_ring<Ring::releases_before_reading>), races("add_up"));
}

// ---- stores ----

enum class Save { right, no_fence, no_wait, rewrites };

template <Save F>
__global__ void save(int* out) {
    int* values = reinterpret_cast<int*>(kit::align_shared<128>(kit::dynamic_shared<char>()));
    for (int run = 0; run < 3; ++run) {
        values[threadIdx.x] = run * 100 + static_cast<int>(threadIdx.x);
        if (F != Save::no_fence) kit::fence_proxy_async();
        __syncthreads();
        if (threadIdx.x == 0) {
            kit::bulk_store(out + run * 32, values, 128);
            kit::bulk_commit();
            if (F != Save::rewrites && (run < 2 || F != Save::no_wait)) kit::bulk_wait_sources<0>();
        }
        __syncthreads();
    }
}

template <Save F>
std::string run_save() {
    for (const uint64_t seed : {0, 1, 2, 3, 4, 5}) {
        emulator::set_order(seed);
        std::vector<int> out(96);
        const std::string fault = fault_of([&] {
            kit::launch("save", save<F>, {.grid = 1, .block = 32, .dynamic_shared = 256}, Stream{},
                        out.data());
        });
        if (!fault.empty()) return fault;
        for (int i = 0; i < 96; ++i) {
            if (out[static_cast<size_t>(i)] != i / 32 * 100 + i % 32) return "wrong";
        }
    }
    return "";
}

TEST_F(Emulator, BulkStores) {
    EXPECT_THAT(run_save<Save::right>(), IsEmpty());
    EXPECT_THAT(run_save<Save::no_fence>(), names("save", "without fence_proxy_async"));
    EXPECT_THAT(run_save<Save::no_wait>(), names("save", "the block ends while bulk_store"));
    EXPECT_THAT(run_save<Save::rewrites>(), AnyOf(names("save", "after the operation was issued"),
                                                  names("save", "the block ends while"), races("save")));
}

// ---- boxes that the copy engine cannot move ----

__global__ void move_box(const __grid_constant__ kit::TensorMap map, int column, int row, bool stores) {
    Barriers& b = kit::block_shared<Barriers>();
    char* box = kit::align_shared<1024>(kit::dynamic_shared<char>());
    kit::fence_proxy_async();
    if (stores) {
        kit::tma_store(map, box, {column, row});
        kit::bulk_commit();
        kit::bulk_wait<0>();
        return;
    }
    kit::mbarrier_init(&b.full[0], 1);
    kit::fence_mbarrier_init();
    kit::mbarrier_arrive_expect(&b.full[0], 512);
    kit::tma_load(box, map, &b.full[0], {column, row});
    kit::mbarrier_wait(&b.full[0], 0);
}

// Of a tensor of 4 rows of `columns` 16-bit elements, by boxes of 64 x 4.
std::string run_box(int columns, int column, int row, bool stores) {
    alignas(16) static std::array<char, 4 * 256> data;
    kit::TensorLayout layout{.data = data.data(), .axes = 2, .swizzle = Swizzle::bytes128};
    layout.size[0] = static_cast<uint64_t>(columns), layout.size[1] = 4;
    layout.stride[0] = 2, layout.stride[1] = 256;
    layout.box[0] = 64, layout.box[1] = 4;
    const auto map = kit::tensor_map("test", layout);
    return fault_of([&] {
        kit::launch("move_box", move_box, {.grid = 1, .block = 1, .dynamic_shared = 2048}, Stream{}, map,
                    column, row, stores);
    });
}

TEST_F(Emulator, BoxesThatTheEngineCannotMove) {
    for (const bool stores : {false, true}) {
        EXPECT_THAT(run_box(96, 64, 2, stores), IsEmpty());
        EXPECT_THAT(run_box(96, 4, 0, stores), names("move_box", "at a multiple of 16 bytes"));
    }
    EXPECT_THAT(run_box(92, 64, -2, false), IsEmpty());
    EXPECT_THAT(run_box(96, 0, -2, true), names("move_box", "a negative coordinate"));
    EXPECT_THAT(run_box(92, 64, 0, true), names("move_box", "written whole, beyond the tensor"));
    EXPECT_THAT(run_box(92, 0, 0, true), IsEmpty());
}

// ---- wgmma ----

enum class Product {
    right,
    no_proxy_fence,
    no_fence,
    no_second_fence,
    reads_before_the_wait,
    writes_before_the_wait,
    tile_overwritten,
    ends_in_flight,
    one_warp_leaves_out,
    other_descriptor,
    beyond_shared,
};

// One product of ones: every sum is 16.
template <Product F>
__global__ void ones(float* out) {
    auto* tile = reinterpret_cast<kit::bf16*>(kit::align_shared<1024>(kit::dynamic_shared<char>()));
    for (int i = static_cast<int>(threadIdx.x); i < 80 * 64; i += 128) tile[i] = kit::bf16(1.0f);
    if (F != Product::no_proxy_fence) kit::fence_proxy_async();
    __syncthreads();
    const auto a = kit::matrix_descriptor(tile, Swizzle::bytes128, 1024);
    auto b = kit::matrix_descriptor(tile + 64 * 64, Swizzle::bytes128, 1024);
    if (F == Product::other_descriptor && threadIdx.x >= 96) b = b.moved(32);
    if (F == Product::beyond_shared) b = b.moved(16384);
    float sums[8] = {};
    if (F != Product::no_fence) kit::wgmma_fence();
    if (F == Product::one_warp_leaves_out && threadIdx.x < 32) {
        __syncthreads();
    } else {
        kit::wgmma<kit::bf16, kit::bf16, 16>(sums, a, b, false);
    }
    kit::wgmma_commit();
    if (F == Product::ends_in_flight) return;
    float early = F == Product::reads_before_the_wait ? sums[3] : 0.0f;
    if (F == Product::writes_before_the_wait) sums[2] = 1.0f;
    if (F == Product::tile_overwritten) tile[64 * 64 + threadIdx.x] = kit::bf16(3.0f);
    kit::wgmma_wait<0>();
    if (F == Product::no_second_fence) {
        kit::wgmma<kit::bf16, kit::bf16, 16>(sums, a, b, true);
        kit::wgmma_commit();
        kit::wgmma_wait<0>();
    }
    for (int i = 0; i < 8; ++i)
        out[threadIdx.x * 8 + i] = i == 3 && F == Product::reads_before_the_wait ? early : sums[i];
    __syncthreads();
}

template <Product F>
std::string run_ones() {
    for (const uint64_t seed : {0, 1, 2, 3, 4, 5, 6, 7}) {
        emulator::set_order(seed);
        std::vector<float> out(1024);
        const std::string fault = fault_of([&] {
            kit::launch("ones", ones<F>, {.grid = 1, .block = 128, .dynamic_shared = 80 * 128 + 1024},
                        Stream{}, out.data());
        });
        if (!fault.empty()) return fault;
        if (out != std::vector<float>(1024, 16.0f)) return "wrong";
    }
    return "";
}

TEST_F(Emulator, WgmmaFaults) {
    EXPECT_THAT(run_ones<Product::right>(), IsEmpty());
    EXPECT_THAT(run_ones<Product::no_proxy_fence>(), names("ones", "without fence_proxy_async"));
    EXPECT_THAT(run_ones<Product::no_fence>(), names("ones", "no wgmma_fence"));
    EXPECT_THAT(run_ones<Product::no_second_fence>(), names("ones", "no wgmma_fence"));
    EXPECT_THAT(run_ones<Product::reads_before_the_wait>(), "wrong");
    EXPECT_THAT(run_ones<Product::writes_before_the_wait>(), names("ones", "before wgmma_wait"));
    EXPECT_THAT(run_ones<Product::tile_overwritten>(),
                AnyOf(names("ones", "after the operation was issued"), races("ones")));
    EXPECT_THAT(run_ones<Product::ends_in_flight>(), names("ones", "exits with wgmma in flight"));
    EXPECT_THAT(run_ones<Product::one_warp_leaves_out>(), names("ones", "deadlock"));
    EXPECT_THAT(run_ones<Product::other_descriptor>(),
                names("ones", "not those of the rest of the warpgroup"));
    EXPECT_THAT(run_ones<Product::beyond_shared>(), names("ones", "of dynamic shared memory"));
}

// A tile comes by a bulk copy, is multiplied, and the next one comes into the same slot.
enum class Pipeline { right, does_not_wait, releases_in_flight };

template <Pipeline F>
__global__ void pipeline(const kit::bf16* in, float* out, int runs) {
    constexpr unsigned kBytes = 80 * 128;
    Barriers& b = kit::block_shared<Barriers>();
    char* tile = kit::align_shared<1024>(kit::dynamic_shared<char>());
    if (threadIdx.x == 0) {
        kit::mbarrier_init(&b.full[0], 1);
        kit::mbarrier_init(&b.empty[0], 128);
        kit::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x >= 128) {
        for (int run = 0; run < runs && threadIdx.x == 128; ++run) {
            if (run > 0) kit::mbarrier_wait(&b.empty[0], static_cast<unsigned>(run - 1) & 1);
            kit::mbarrier_arrive_expect(&b.full[0], kBytes);
            kit::bulk_load(tile, in + run * 80 * 64, kBytes, &b.full[0]);
        }
        return;
    }
    const auto a = kit::matrix_descriptor(tile, Swizzle::bytes128, 1024);
    float sums[8] = {};
    for (int run = 0; run < runs; ++run) {
        if (F != Pipeline::does_not_wait) kit::mbarrier_wait(&b.full[0], static_cast<unsigned>(run) & 1);
        kit::wgmma_fence();
        kit::wgmma<kit::bf16, kit::bf16, 16>(sums, a, a.moved(64 * 128), true);
        kit::wgmma_commit();
        if (F == Pipeline::releases_in_flight) kit::mbarrier_arrive(&b.empty[0]);
        kit::wgmma_wait<0>();
        if (F != Pipeline::releases_in_flight) kit::mbarrier_arrive(&b.empty[0]);
    }
    for (int i = 0; i < 8; ++i) out[threadIdx.x * 8 + i] = sums[i];
}

template <Pipeline F>
std::string run_pipeline() {
    constexpr int kRuns = 3;
    std::vector<kit::bf16> in(kRuns * 80 * 64);
    for (int i = 0; i < kRuns * 80 * 64; ++i)
        in[static_cast<size_t>(i)] = kit::bf16(static_cast<float>(1 + i / (80 * 64)));
    for (const uint64_t seed : {0, 1, 2, 3, 4, 5, 6, 7}) {
        emulator::set_order(seed);
        std::vector<float> out(1024);
        const std::string fault = fault_of([&] {
            kit::launch("pipeline", pipeline<F>, {.grid = 1, .block = 160, .dynamic_shared = 80 * 128 + 1024},
                        Stream{}, in.data(), out.data(), kRuns);
        });
        if (!fault.empty()) return fault;
        if (out != std::vector<float>(1024, 16.0f * (1 + 4 + 9))) return "wrong";
    }
    return "";
}

TEST_F(Emulator, WgmmaOnTilesOfARing) {
    EXPECT_THAT(run_pipeline<Pipeline::right>(), IsEmpty());
    EXPECT_THAT(run_pipeline<Pipeline::does_not_wait>(),
                AnyOf(names("pipeline", "reads shared memory into which"),
                      names("pipeline", "is still read by"), races("pipeline"), "wrong"));
    EXPECT_THAT(run_pipeline<Pipeline::releases_in_flight>(),
                AnyOf(names("pipeline", "overwrites shared memory that"), names("pipeline", "issued"),
                      races("pipeline")));
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
