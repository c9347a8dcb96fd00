// Planted faults, third part: addresses, memory that was never written, and launches that no device takes.
#include "support.h"

#include "kit/ptx/cluster.cuh"
#include "kit/ptx/cp_async.cuh"
#include "kit/ptx/ldmatrix.cuh"
#include "kit/ptx/memory.cuh"
#include "kit/ptx/pdl.cuh"
#include "kit/ptx/stmatrix.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using test::Fault;
using test::fault_of;
using test::Floats;
using test::kAsan;
using test::kNone;
using test::kPlanted;
using test::kTsan;
using test::names;
using test::races;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

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

__global__ void stmatrix_at(int offset) {
    const uint32_t r[4] = {};
    kit::stmatrix_trans(kit::dynamic_shared<char>() + offset, r);
}

TEST_F(Emulator, MisalignedVectors) {
    alignas(16) char data[64] = {};
    float4 out;
    const kit::LaunchShape shape{.grid = 1, .block = 32, .dynamic_shared = 64};
    EXPECT_THAT(
        fault_of([&] { kit::launch("k", load_at, {.grid = 1, .block = 1}, Stream{}, data, 16, &out); }),
        IsEmpty());
    EXPECT_THAT(fault_of([&] { kit::launch("k", load_at, shape, Stream{}, data, 4, &out); }),
                names("k", "not a multiple of 16"));
    EXPECT_THAT(fault_of([&] { kit::launch("k", copy_at, shape, Stream{}, data, 8); }),
                names("k", "not a multiple of 16"));
    EXPECT_THAT(fault_of([&] { kit::launch("k", ldmatrix_at, shape, Stream{}, 8); }),
                names("k", "not a multiple of 16"));
    EXPECT_THAT(fault_of([&] { kit::launch("k", stmatrix_at, shape, Stream{}, 8); }),
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
    const kit::LaunchShape fixed{.grid = 1, .block = 32},
        dynamic{.grid = 1, .block = 31, .dynamic_shared = 31 * 4};
    EXPECT_THAT(fault_of([&] { kit::launch("k", shift_in_static<kNone>, fixed, Stream{}); }), IsEmpty());
    EXPECT_THAT(fault_of([&] { kit::launch("k", shift_in_dynamic<kNone>, dynamic, Stream{}); }), IsEmpty());
    if (kAsan) {
        EXPECT_DEATH(kit::launch("k", shift_in_static<kPlanted>, fixed, Stream{}),
                     "(out of bounds|heap-buffer-overflow)(.|\n)*weft emulator: kernel 'k', block "
                     "\\(0,0,0\\), thread \\(31,0,0\\)");
        EXPECT_DEATH(
            kit::launch("k", shift_in_dynamic<kPlanted>, dynamic, Stream{}),
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
    EXPECT_THAT(
        fault_of([&] { kit::launch("scale", scale<kNone>, shape, Stream{}, in.data(), out.data(), 100); }),
        IsEmpty());
    EXPECT_DEATH(
        kit::launch("scale", scale<kPlanted>, shape, Stream{}, in.data(), out.data(), 100),
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
    kit::launch("copy_two", copy_two<F>, {.grid = 1, .block = 32, .dynamic_shared = 1024}, Stream{},
                in.data(), out.data());
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
    EXPECT_THAT(fault({.grid = 1, .block = 1025}),
                AllOf(HasSubstr("nothing"), HasSubstr("(1025,1,1) threads")));
    EXPECT_THAT(fault({.grid = 1, .block = dim3(64, 32)}), HasSubstr("(64,32,1) threads"));
    EXPECT_THAT(fault({.grid = 1, .block = dim3(1, 1, 65)}), HasSubstr("(1,1,65) threads"));
    EXPECT_THAT(fault({.grid = 1, .block = dim3(1, 1024)}), IsEmpty());
    EXPECT_THAT(fault({.grid = 1, .block = dim3(1, 1, 64)}), IsEmpty());
    EXPECT_THAT(fault({.grid = 1, .block = dim3(1, 1025)}), HasSubstr("(1,1025,1) threads"));
    EXPECT_THAT(fault({.grid = 1, .block = dim3(32, 0)}), HasSubstr("(32,0,1) threads"));
    EXPECT_THAT(fault({.grid = 0, .block = 32}), HasSubstr("a grid of (0,1,1)"));
    EXPECT_THAT(fault({.grid = dim3(1, 0), .block = 32}), HasSubstr("a grid of (1,0,1)"));
    EXPECT_THAT(fault({.grid = dim3(1, 1, 0), .block = 32}), HasSubstr("a grid of (1,1,0)"));
    EXPECT_THAT(fault({.grid = dim3(1, 65536), .block = 32}), HasSubstr("a grid of (1,65536,1)"));
    EXPECT_THAT(fault({.grid = dim3(1, 1, 65536), .block = 32}), HasSubstr("a grid of (1,1,65536)"));
    EXPECT_THAT(fault({.grid = 6, .block = 32, .cluster = 4}), HasSubstr("clusters of 4 in a grid of 6"));
    EXPECT_THAT(fault({.grid = 16, .block = 32, .cluster = 16}), HasSubstr("clusters of 16"));
    EXPECT_THAT(fault({.grid = 1, .block = 32, .dynamic_shared = 227 * 1024 + 1}), HasSubstr("232449 bytes"));
    EXPECT_THAT(fault_of([] { kit::launch("much", much_shared, {.grid = 1, .block = 1}, Stream{}); }),
                names("much", "81920 bytes of static"));
    EXPECT_THAT(fault_of([] { kit::launch("early", nothing, {.dependent = true}, Stream{}); }),
                AllOf(HasSubstr("early"), HasSubstr("dependency_wait")));
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
