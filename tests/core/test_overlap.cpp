// Shared memory of views: exact against counting places, and quick whatever the strides.
#include "core/overlap.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <vector>

#include "core/elements.h"
#include "verify/random.h"

namespace weft {
namespace {

alignas(64) char memory[1 << 16];

Tensor view(std::int64_t at, DType dtype, std::vector<std::int64_t> shape, std::vector<std::int64_t> stride) {
    return Tensor(memory + at, dtype, std::span<const std::int64_t>(shape),
                  std::span<const std::int64_t>(stride));
}

std::multiset<std::int64_t> places(const Tensor& t) {
    std::multiset<std::int64_t> found;
    for_each_offset(t, [&](std::int64_t i) { found.insert(i); });
    return found;
}

bool share_a_byte(const Tensor& a, const Tensor& b) {
    std::set<std::int64_t> of_a;
    const auto bytes_of = [](const Tensor& t, auto use) {
        for_each_offset(t, [&](std::int64_t i) {
            const std::int64_t first = static_cast<char*>(t.data) - memory + i * bits(t.dtype) / 8;
            for (std::int64_t k = 0; k < bytes(t.dtype, 1); ++k) use(first + k);
        });
    };
    bytes_of(a, [&](std::int64_t byte) { of_a.insert(byte); });
    bool shared = false;
    bytes_of(b, [&](std::int64_t byte) { shared = shared || of_a.contains(byte); });
    return shared;
}

TEST(Overlap, SlicesOfOneBufferShareNothing) {
    const Tensor k = view(0, DType::bf16, {39, 4, 64}, {512, 64, 1}),
                 v = view(512, DType::bf16, {39, 4, 64}, {512, 64, 1});
    EXPECT_FALSE(overlap(k, v));
    EXPECT_TRUE(overlap(k, k));
    EXPECT_TRUE(overlap(k, view(510, DType::bf16, {39, 4, 64}, {512, 64, 1})));
    EXPECT_TRUE(overlap(k, view(512, DType::bf16, {39, 4, 65}, {512, 64, 1})));
    EXPECT_FALSE(overlap(view(0, DType::fp32, {8}, {2}), view(4, DType::fp32, {8}, {2})));
    EXPECT_FALSE(overlap(view(0, DType::fp32, {8}, {2}), view(4, DType::bf16, {4, 2}, {8, 1})))
        << "in the gaps";
    EXPECT_TRUE(overlap(view(0, DType::fp32, {8}, {2}), view(4, DType::bf16, {4, 3}, {8, 1})));
}

TEST(Overlap, PackedPairsCountByTheByte) {
    const Tensor low = view(0, DType::fp4_e2m1, {4, 8}, {16, 1});
    EXPECT_FALSE(overlap(low, view(4, DType::fp4_e2m1, {4, 8}, {16, 1})));
    EXPECT_TRUE(overlap(low, view(3, DType::fp4_e2m1, {4, 8}, {16, 1})));
    EXPECT_FALSE(overlap(low, view(4, DType::uint8, {4, 4}, {8, 1})));
    EXPECT_TRUE(overlap(low, view(4, DType::uint8, {4, 5}, {8, 1})));
    EXPECT_TRUE(overlap(view(0, DType::fp4_e2m1, {4}, {2}), view(0, DType::uint8, {4}, {1})));
    EXPECT_FALSE(overlap(view(0, DType::fp4_e2m1, {3, 5}, {5, 1}), view(8, DType::uint8, {4}, {1})));
    EXPECT_FALSE(overlap(view(0, DType::fp4_e2m1, {2, 2, 8}, {64, 16, 1}), view(4, DType::uint8, {4}, {1})));
    for (int byte = 0; byte < 8; ++byte)
        EXPECT_TRUE(overlap(view(0, DType::fp4_e2m1, {3, 5}, {5, 1}), view(byte, DType::uint8, {1}, {1})))
            << byte;
}

TEST(Overlap, OfAViewWithItself) {
    EXPECT_FALSE(overlaps_itself(view(0, DType::bf16, {4, 8}, {8, 1})));
    EXPECT_TRUE(overlaps_itself(view(0, DType::bf16, {4, 8}, {4, 1})));
    EXPECT_TRUE(overlaps_itself(view(0, DType::bf16, {4, 8}, {0, 1})));
    EXPECT_FALSE(overlaps_itself(view(0, DType::bf16, {1, 8}, {0, 1})));
    EXPECT_FALSE(overlaps_itself(view(0, DType::bf16, {4, 2, 8}, {8, 32, 1})));
    EXPECT_FALSE(overlaps_itself(view(0, DType::bf16, {2, 3}, {3, 2}))) << "woven, and apart: 0 2 4 3 5 7";
    EXPECT_TRUE(overlaps_itself(view(0, DType::bf16, {3, 4}, {3, 2}))) << "3·2 = 2·3";
}

TEST(Overlap, IsWhatCountingPlacesFinds) {
    Random random(5);
    const auto draw = [&](DType dtype) {
        std::vector<std::int64_t> shape, stride;
        const std::int64_t rank = 1 + random.below(4);
        for (std::int64_t i = 0; i < rank; ++i) {
            shape.push_back(1 + random.below(5));
            stride.push_back(1 + random.below(40));
        }
        return view(random.below(60) * bytes(dtype, 1), dtype, shape, stride);
    };
    constexpr DType kDTypes[] = {DType::int8, DType::bf16, DType::fp32, DType::int64};
    int shared = 0, woven = 0;
    for (int i = 0; i < 20000; ++i) {
        const Tensor a = draw(random.pick(kDTypes)), b = draw(random.pick(kDTypes));
        const std::multiset<std::int64_t> of_a = places(a);
        ASSERT_EQ(overlaps_itself(a), std::set(of_a.begin(), of_a.end()).size() < of_a.size())
            << to_string(a);
        ASSERT_EQ(overlap(a, b), share_a_byte(a, b))
            << to_string(a) << " and " << to_string(b) << " "
            << static_cast<char*>(b.data) - static_cast<char*>(a.data);
        shared += overlap(a, b) ? 1 : 0;
        woven += overlap(a, b) || a.data == b.data ? 0 : 1;
    }
    EXPECT_GT(shared, 2000);
    EXPECT_GT(woven, 2000);
}

// Steps without a common factor and sizes as large as they come: many sums, of which each test may look at few.
TEST(Overlap, AnswersQuicklyWhateverTheStrides) {
    const std::int64_t n = std::int64_t{1} << 20, m = 400;
    const Tensor a(memory, DType::int8, std::vector<std::int64_t>{m, m, m, m, m, 2},
                   std::vector<std::int64_t>{1000003, 1000033, 1000037, 1000039, 1000081, 1});
    const Tensor two(memory + 1, DType::int8, std::vector<std::int64_t>{n, n},
                     std::vector<std::int64_t>{1000003, 999983});
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(overlaps_itself(a)) << "more elements than places: where nothing was found in time, they may";
    EXPECT_TRUE(overlap(a, two));
    EXPECT_TRUE(overlaps_itself(two)) << "999983 steps of the one are 1000003 of the other";
    const Tensor apart(memory, DType::int8, std::vector<std::int64_t>{999983, n},
                       std::vector<std::int64_t>{1000003, 999983});
    EXPECT_FALSE(overlaps_itself(apart));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(took.count(), 0.5);
}

}  // namespace
}  // namespace weft
