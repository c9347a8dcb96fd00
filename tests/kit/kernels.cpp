// The kit's building blocks, run in the emulator against plain loops.
#include "../emulator/support.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kit/convert.cuh"
#include "kit/elementwise.cuh"
#include "kit/reduce.cuh"
#include "kit/vector.cuh"
#include "weft/dtype.h"

namespace weft::inline WEFT_TARGET {
namespace {

using test::Emulator;

// ---- vectors ----

template <class T, int N>
__global__ void copy_vectors(const T* from, T* to, int count, bool aligned) {
    const int at = static_cast<int>(threadIdx.x) * N;
    kit::store_vector(to + at, kit::load_vector<N>(from + at, count - at, aligned), count - at, aligned);
}

template <class T, int N>
void expect_copies() {
    for (const int offset : {0, 1, 3}) {
        for (const int count : {0, 1, N - 1, N, N + 1, 5 * N, 32 * N}) {
            if (count < 0) continue;
            std::vector<T> from(static_cast<std::size_t>(offset + count)), to(from.size() + 1);
            for (std::size_t i = 0; i < from.size(); ++i) from[i] = T(static_cast<float>(i % 7));
            to.back() = T(40.0f);
            const bool aligned = reinterpret_cast<std::uintptr_t>(from.data() + offset) % 16 == 0 &&
                                 reinterpret_cast<std::uintptr_t>(to.data() + offset) % 16 == 0;
            kit::launch("copy_vectors", copy_vectors<T, N>, {.grid = 1, .block = 32}, Stream{},
                        from.data() + offset, to.data() + offset, count, aligned);
            for (std::size_t i = static_cast<std::size_t>(offset); i < from.size(); ++i) {
                ASSERT_EQ(static_cast<float>(to[i]), static_cast<float>(from[i]))
                    << "offset " << offset << " at " << i;
            }
            ASSERT_EQ(static_cast<float>(to.back()), 40.0f) << "beyond " << count;
        }
    }
}

TEST_F(Emulator, VectorsCopyWholeTailedAndUnaligned) {
    expect_copies<float, 4>();
    expect_copies<float, 8>();
    expect_copies<kit::bf16, 8>();
    expect_copies<kit::half, 4>();
    expect_copies<kit::e4m3, 8>();
    expect_copies<float, 1>();
}

__global__ void widen(DType dtype, const void* from, float* to) { *to = kit::load_as(dtype, from, 0); }

TEST_F(Emulator, ADTypeWithoutADeviceTypeEndsTheKernel) {
    const std::int8_t value = -3;
    float result = 0;
    kit::launch("widen", widen, {.grid = 1, .block = 1}, Stream{}, DType::int8, &value, &result);
    EXPECT_EQ(result, -3.0f);
    EXPECT_THAT(
        [&] {
            kit::launch("widen", widen, {.grid = 1, .block = 1}, Stream{}, DType::int64, &value, &result);
        },
        ::testing::ThrowsMessage<Error>(::testing::HasSubstr("no device type")));
}

TEST(RowsAligned, LooksAtBaseAndRowStride) {
    alignas(16) static std::uint16_t memory[256];
    const std::int64_t shape[] = {4, 16};
    const auto view = [&](int offset, std::int64_t stride) {
        const std::int64_t strides[] = {stride, 1};
        return Tensor(memory + offset, DType::bf16, shape, strides);
    };
    EXPECT_TRUE(kit::rows_aligned(view(0, 16), 8));
    EXPECT_TRUE(kit::rows_aligned(view(8, 24), 8));
    EXPECT_FALSE(kit::rows_aligned(view(1, 16), 8));
    EXPECT_FALSE(kit::rows_aligned(view(0, 20), 8));
    EXPECT_TRUE(kit::rows_aligned(view(4, 20), 4));
    EXPECT_TRUE(kit::rows_aligned(view(1, 17), 1));
}

// Of what L2 could not hold, it keeps what is read and not what is written; an operand that is absent asks for nothing.
TEST(InputRows, AreKeptInL2WhereTheyWouldNotFit) {
    alignas(16) static float memory[4];
    const DeviceInfo& device = *find_device("h200");
    const auto rows = [&](std::int64_t bytes) {
        const std::int64_t shape[] = {bytes / 4096, 1024};
        return Tensor(memory, DType::fp32, shape);
    };
    const Tensor fits = rows(device.l2_bytes - 4096), large = rows(device.l2_bytes);
    EXPECT_FALSE(kit::input_rows(fits, 4, device).keep);
    EXPECT_TRUE(kit::input_rows(large, 4, device).keep);
    EXPECT_FALSE(kit::vector_rows(large, 4).keep);
    EXPECT_FALSE(kit::input_rows(Tensor(), 4, device).keep);
}

// ---- conversions ----

// Rounded one at a time, in pairs, and by run-time dtype: all must be the core's code.
template <class T>
__global__ void convert(const float* from, T* single, T* paired, T* by_dtype, float* widened, int count) {
    const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * 2;
    if (at + 1 >= count) return;
    const float pair[2] = {from[at], from[at + 1]};
    const kit::Vec<T, 2> both = kit::from_floats<T>(pair);
    float back[2];
    kit::to_floats(both, back);
    for (int i = 0; i < 2; ++i) {
        single[at + i] = kit::from_float<T>(pair[i]);
        paired[at + i] = both[i];
        kit::store_as(kit::kDTypeOf<T>, by_dtype, at + i, pair[i]);
        widened[at + i] = back[i];
    }
}

std::vector<float> awkward_floats(DType dtype) {
    std::vector<float> values = {0.0f, -0.0f, INFINITY, -INFINITY, NAN,    1e-40f,   -1e-45f, 3.4e38f,
                                 1e6f, -1e6f, 448.0f,   464.0f,    465.0f, 57344.0f, 61440.0f};
    std::mt19937 random(1);
    // Every code, the middles between neighbours, and just beside them.
    const int codes = 1 << std::min(bits(dtype), 11);
    for (int code = 0; code < codes; ++code) {
        const std::uint64_t wide = static_cast<std::uint64_t>(code)
                                   << (bits(dtype) - std::min(bits(dtype), 11));
        const auto low = static_cast<float>(decode(dtype, wide)),
                   high = static_cast<float>(decode(dtype, wide + 1));
        const float middle = low + (high - low) / 2;
        for (const float v :
             {low, middle, std::nextafterf(middle, INFINITY), std::nextafterf(middle, -INFINITY)})
            values.push_back(v);
    }
    for (int i = 0; i < 2000; ++i) {
        values.push_back(
            std::ldexp(static_cast<float>(random()) / 4e9f - 0.5f, static_cast<int>(random() % 60) - 30));
    }
    if (values.size() % 2 != 0) values.push_back(1);
    return values;
}

// A type that no dtype stores has none, instead of another's.
template <class T>
concept Stored = requires { kit::StoredAs<T>::kDType; };
static_assert(Stored<float> && Stored<kit::e4m3> && !Stored<double> && !Stored<std::uint16_t>);

template <class T>
void expect_conversions() {
    constexpr DType kDType = kit::kDTypeOf<T>;
    const std::vector<float> values = awkward_floats(kDType);
    std::vector<T> single(values.size()), paired(values.size()), by_dtype(values.size());
    std::vector<float> widened(values.size());
    kit::launch("convert", convert<T>, {.grid = static_cast<unsigned>(values.size() / 64 + 1), .block = 32},
                Stream{}, values.data(), single.data(), paired.data(), by_dtype.data(), widened.data(),
                static_cast<int>(values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double expected = round_to(kDType, static_cast<double>(values[i]));
        const auto at = static_cast<std::int64_t>(i);
        for (const std::vector<T>* codes : {&single, &paired, &by_dtype}) {
            const double got = load_element(kDType, codes->data(), at);
            if (std::isnan(expected)) {
                ASSERT_TRUE(std::isnan(got)) << values[i];
            } else {
                ASSERT_EQ(got, expected) << values[i];
                ASSERT_EQ(std::signbit(got), std::signbit(expected)) << values[i];
            }
        }
        if (!std::isnan(expected)) {
            ASSERT_EQ(static_cast<double>(widened[i]), expected) << values[i];
        }
    }
}

TEST_F(Emulator, ConversionsAreTheCoresBitForBit) {
    expect_conversions<kit::bf16>();
    expect_conversions<kit::half>();
    expect_conversions<kit::e4m3>();
    expect_conversions<kit::e5m2>();
}

TEST(DynamicScale, IsOneForZeroAndNeverSubnormal) {
    EXPECT_EQ(kit::dynamic_scale(0.0f, DType::fp8_e4m3), 1.0f);
    EXPECT_EQ(kit::dynamic_scale(896.0f, DType::fp8_e4m3), 2.0f);
    EXPECT_EQ(kit::dynamic_scale(57344.0f, DType::fp8_e5m2), 1.0f);
    EXPECT_EQ(kit::dynamic_scale(1e-44f, DType::fp8_e4m3), 0x1p-126f);
}

// ---- reductions ----

// Each thread brings a small integer, so sums are exact; three reductions in a row share the scratch.
template <GroupScope kScope>
__global__ void reduce(const float* values, float* results, int lanes, int cluster) {
    kit::Group<kScope> group{lanes, cluster};
    const float own = values[blockIdx.x * blockDim.x + threadIdx.x];
    group.begin();
    const float sum = group.sum(own);
    const float max = group.max(own);
    const float squares = group.sum(own * own);
    float* to = results + 3 * (blockIdx.x * blockDim.x + threadIdx.x);
    to[0] = sum, to[1] = max, to[2] = squares;
}

using Reduce = void (*)(const float*, float*, int, int);
void expect_reductions(Reduce kernel, int lanes, int threads, int cluster, unsigned blocks) {
    SCOPED_TRACE("lanes " + std::to_string(lanes) + " threads " + std::to_string(threads) + " cluster " +
                 std::to_string(cluster));
    const std::size_t all = static_cast<std::size_t>(threads) * blocks;
    const std::size_t group = static_cast<std::size_t>(lanes) * static_cast<std::size_t>(cluster);
    std::vector<float> values(all), results(3 * all);
    std::mt19937 random(3);
    for (float& v : values) v = static_cast<float>(random() % 19) - 9;
    kit::launch(
        "reduce", kernel,
        {.grid = blocks, .block = static_cast<unsigned>(threads), .cluster = static_cast<unsigned>(cluster)},
        Stream{}, values.data(), results.data(), lanes, cluster);
    for (std::size_t first = 0; first < all; first += group) {
        float sum = 0, max = -INFINITY, squares = 0;
        for (std::size_t i = first; i < first + group; ++i) {
            sum += values[i], max = std::max(max, values[i]), squares += values[i] * values[i];
        }
        for (std::size_t i = first; i < first + group; ++i) {
            ASSERT_EQ(results[3 * i], sum);
            ASSERT_EQ(results[3 * i + 1], max);
            ASSERT_EQ(results[3 * i + 2], squares);
        }
    }
}

TEST_F(Emulator, GroupsReduceOverLanesBlocksAndClusters) {
    test::in_several_orders([] {
        // A scope that is known when the kernel is compiled, and one that is decided where it runs.
        for (const Reduce kernel : {&reduce<GroupScope::warp>, &reduce<GroupScope::any>}) {
            for (const int lanes : {1, 2, 4, 8, 16, 32}) expect_reductions(kernel, lanes, 64, 1, 3);
        }
        for (const Reduce kernel : {&reduce<GroupScope::block>, &reduce<GroupScope::any>}) {
            for (const int threads : {64, 96, 160, 512, 1024})
                expect_reductions(kernel, threads, threads, 1, 2);
        }
        for (const Reduce kernel : {&reduce<GroupScope::cluster>, &reduce<GroupScope::any>}) {
            for (const int cluster : {2, 4, 8}) expect_reductions(kernel, 128, 128, cluster, 16);
        }
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
