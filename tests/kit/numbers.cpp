// Numbers beyond 32 bits in what kernels divide, walk and move by: no emulated case has so many elements.
#include "../emulator/support.h"

#include <array>

#include "kit/affine_launch.h"
#include "kit/axis_walk.cuh"
#include "kit/divisor.cuh"
#include "kit/elementwise.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr std::int64_t kFar = std::int64_t{1} << 31;

std::array<std::int64_t, 3> walked(const kit::AxisWalk& walk, std::int64_t n) {
    std::array<std::int64_t, 3> index{};
    walk.each(n, [&](int axis, std::int64_t i) { index[static_cast<std::size_t>(axis)] = i; });
    return index;
}

TEST(AxisWalks, TellTheIndicesOfAnyNumber) {
    for (const std::int64_t last : {std::int64_t{1}, std::int64_t{2}, std::int64_t{5}, kFar}) {
        kit::AxisWalk walk;
        for (const std::int64_t size : {std::int64_t{65537}, std::int64_t{32749}, last}) walk.add(size);
        EXPECT_EQ(walk.wide, 65537 * std::int64_t{32749} * last >= kFar);
        for (const std::int64_t n : {std::int64_t{0}, std::int64_t{65536}, std::int64_t{65537}, kFar - 1,
                                     kFar, kFar + 3, 2 * kFar - 1, 2 * kFar + 7}) {
            if (n >= walk.count()) continue;
            const auto [i, j, k] = walked(walk, n);
            EXPECT_EQ(i + 65537 * (j + 32749 * k), n);
            EXPECT_TRUE(0 <= i && i < 65537 && 0 <= j && j < 32749 && 0 <= k && k < last) << n;
        }
    }
}

TEST(AxisWalks, OfTwoToThe31AreWide) {
    kit::AxisWalk walk;
    walk.add(1 << 16);
    walk.add((1 << 15) - 1);
    EXPECT_FALSE(walk.wide);
    kit::AxisWalk more;
    more.add(1 << 16);
    more.add(1 << 15);
    EXPECT_TRUE(more.wide);
}

// Of every number below 2^31, next to multiples of the divisor above all.
TEST(Divisors, GiveEveryQuotient) {
    for (const std::int64_t d :
         {1,   2,    3,    5,     7,     8,     24,      100,           127,     128,           129,
          641, 1000, 4097, 65535, 65536, 65537, 1000003, (1 << 30) - 1, 1 << 30, (1 << 30) + 1, 2147483647}) {
        const kit::Divisor by = kit::Divisor::of(d);
        for (std::int64_t i = 0; i <= 400; ++i) {
            const std::int64_t multiple = (kFar - 1) / 400 * i / d * d;
            for (const std::int64_t n : {multiple - 1, multiple, multiple + d - 1, kFar - 1 - i}) {
                if (n < 0 || n >= kFar) continue;
                ASSERT_EQ(by.quotient(static_cast<unsigned>(n)), n / d) << n << " / " << d;
            }
        }
    }
    for (const unsigned n : {0u, 1u, 0x7fffffffu}) EXPECT_EQ(kit::Divisor::endless().quotient(n), 0u);
    EXPECT_EQ(kit::Divisor::of(0).quotient(7), 7u) << "what nothing is divided by may be 0";
}

TEST(Tiles, CountWhatIsLeftOfLongRows) {
    EXPECT_EQ(kit::left<8>(4 * kFar, 4 * kFar - 3), 3);
    EXPECT_EQ(kit::left<8>(4 * kFar, 4 * kFar - 8), 8);
    EXPECT_EQ(kit::left<8>(4 * kFar, 0), 8);
    EXPECT_EQ(kit::left<8>(2 * kFar + 5, 5), 8);
    EXPECT_LE(kit::left<8>(16, 16), 0);
    EXPECT_LE(kit::left<8>(16, 24), 0);
}

// Whole vectors are found by 32-bit rows and a pitch of 32 bits.
TEST(Tiles, AreWholeWhereTheirNumbersFit) {
    const auto whole = [](std::int64_t rows, std::int64_t stride, bool aligned = true,
                          std::int64_t dim = 64) {
        const kit::RowTiles tiles{.rows = rows,
                                  .dim = dim,
                                  .vectors = 8,
                                  .lanes_log2 = 3,
                                  .threads = 256,
                                  .row_blocks = 1u << 26,
                                  .layers = 2};
        static float memory[1];
        return kit::whole_vectors(tiles, 8, {{.data = memory, .stride = stride, .aligned = aligned}, {}});
    };
    EXPECT_TRUE(whole(64, 64));
    EXPECT_FALSE(whole(64, 64, false));
    EXPECT_FALSE(whole(64, 64, true, 63));
    EXPECT_TRUE(whole(64, (1 << 29) - 8));
    EXPECT_FALSE(whole(64, 1 << 29));
    EXPECT_FALSE(whole(64, -64));
    EXPECT_TRUE(whole(kFar - 1, 64));
    EXPECT_FALSE(whole(kFar, 64));
}

// Kernels without a loop need a thread for each vector.
TEST(Tiles, AreWholeWhereTheGridCoversThem) {
    const auto covered = [](std::int64_t rows, unsigned vectors, unsigned across, unsigned down,
                            unsigned layers) {
        const kit::RowTiles tiles{.rows = rows,
                                  .dim = std::int64_t{vectors} * 8,
                                  .vectors = vectors,
                                  .lanes_log2 = 3,
                                  .threads = 256,
                                  .column_blocks = across,
                                  .row_blocks = down,
                                  .layers = layers};
        EXPECT_EQ(kit::whole_vectors(tiles, 8, {}), kit::cover(tiles, 1));
        return kit::cover(tiles, 1);
    };
    EXPECT_TRUE(covered(32, 8, 1, 1, 1));
    EXPECT_FALSE(covered(33, 8, 1, 1, 1));
    EXPECT_TRUE(covered(64, 8, 1, 2, 1));
    EXPECT_TRUE(covered(128, 8, 1, 2, 2));
    EXPECT_FALSE(covered(129, 8, 1, 2, 2));
    EXPECT_FALSE(covered(32, 9, 1, 1, 1));
    EXPECT_TRUE(covered(32, 16, 2, 1, 1));
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
