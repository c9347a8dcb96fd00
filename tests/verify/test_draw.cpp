// What is drawn for the elements of inputs: how each kind of values is made of the usual ones, and what integers may
// be.
#include "verify/draw.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "core/elements.h"

namespace weft::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::Le;
using testing::Lt;

using Shape = std::vector<std::int64_t>;

std::vector<double> drawn(const Fill& fill, DType dtype, const Shape& shape, Drawing drawing = {},
                          std::int64_t limit = kUnknown, std::uint64_t seed = 3) {
    Field field;
    field.fill = fill;
    const std::int64_t n = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    std::vector<std::int64_t> memory(static_cast<std::size_t>(n) + 1);
    const Tensor view(memory.data(), dtype, std::span(shape));
    draw_input(field, view, limit, drawing, Random(seed));
    std::vector<double> values;
    for_each_offset(view, [&](std::int64_t i) { values.push_back(load_element(dtype, memory.data(), i)); });
    return values;
}

double mean(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

template <class Holds>
std::ptrdiff_t how_many(const std::vector<double>& values, Holds holds) {
    return std::count_if(values.begin(), values.end(), holds);
}

// ---- numbers ----

TEST(Elements, HaveTheMeanAndTheDeviationOfTheirFill) {
    const auto values = drawn(Fill::normal(3, 0.5), DType::fp32, {100, 100});
    EXPECT_NEAR(mean(values), 3, 0.03);
    double squares = 0;
    for (const double value : values) squares += (value - 3) * (value - 3);
    EXPECT_NEAR(squares / 1e4, 0.25, 0.02);
    const auto uniform = drawn(Fill::uniform(-2, 6), DType::fp32, {100, 100});
    EXPECT_THAT(uniform, Each(AllOf(Ge(-2), Le(6))));
    EXPECT_NEAR(mean(uniform), 2, 0.15);
    const auto scales = drawn(Fill::scale(0.5, 3), DType::fp32, {100, 100}, {Values::wide});
    EXPECT_THAT(scales, Each(AllOf(Ge(0.5), Le(3))));
    EXPECT_NEAR(mean(scales), 1.75, 0.05);
    EXPECT_THAT(drawn(Fill::scale(0.5, 3), DType::fp32, {40}, {Values::ties}), Each(2.0));
    EXPECT_THAT(drawn(Fill::scale(0.5, 4), DType::fp32, {40}, {Values::ties}), Each(4.0));
    EXPECT_THAT(drawn(Fill::mask(), DType::fp32, {4}), Each(0.0))
        << "no number is drawn by a rule of integers";
}

TEST(Elements, OfTinyRowsAreUsualOnesScaledDown) {
    const auto usual = drawn(Fill::normal(), DType::fp32, {400, 4});
    const auto tiny = drawn(Fill::normal(), DType::fp32, {400, 4}, {Values::tiny});
    int rows = 0;
    for (std::size_t row = 0; row < 400; ++row) {
        const double factor = tiny[4 * row] / usual[4 * row];
        EXPECT_TRUE(factor == 1 || factor == 0x1p-20) << factor;
        rows += factor == 1 ? 0 : 1;
        for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(tiny[4 * row + i], usual[4 * row + i] * factor);
    }
    EXPECT_GT(rows, 140);
    EXPECT_LT(rows, 260);
    // The rows of another seed are others.
    EXPECT_NE(drawn(Fill::normal(), DType::fp32, {400, 4}, {Values::tiny}, kUnknown, 4), tiny);
}

TEST(Elements, OfConstantRowsAreOneNumberOfFew) {
    const auto usual = drawn(Fill::normal(), DType::fp32, {400, 4});
    const auto values = drawn(Fill::normal(), DType::fp32, {400, 4}, {Values::constant});
    std::set<double> found;
    int rows = 0;
    for (std::size_t row = 0; row < 400; ++row) {
        if (values[4 * row] == usual[4 * row]) continue;
        ++rows;
        found.insert(values[4 * row]);
        for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(values[4 * row + i], values[4 * row]);
    }
    EXPECT_GT(rows, 140);
    EXPECT_LT(rows, 260);
    EXPECT_GT(found.size(), 50u);
    for (const double value : found) {
        EXPECT_TRUE(value >= 0.75 && value < 2.75);
        EXPECT_EQ(std::fmod(value - 0.75, 1.0 / 32), 0) << "exact in bf16 sums";
    }
}

TEST(Elements, OfRisingRowsGrowAlongTheRowAndTheTensor) {
    const auto usual = drawn(Fill::normal(), DType::fp32, {10, 8});
    const auto rising = drawn(Fill::normal(), DType::fp32, {10, 8}, {Values::rising});
    for (std::size_t i = 0; i < 80; ++i) {
        const double factor = 0.5 + 2 * static_cast<double>(i % 8) / 8 + 2 * static_cast<double>(i) / 80;
        EXPECT_NEAR(rising[i] / usual[i], factor, 1e-5) << i;
    }
    const auto flat = drawn(Fill::normal(), DType::fp32, {80}, {Values::rising});
    for (std::size_t i = 0; i < 80; ++i)
        EXPECT_NEAR(flat[i] / usual[i], 0.5 + 2 * static_cast<double>(i) / 80, 1e-5)
            << "each a row of its own";
}

TEST(Elements, OfWideRangesSpanThem) {
    const auto values = drawn(Fill::normal(0, 1), DType::fp32, {20'000}, {Values::wide});
    // Of a normal number two in three are below 1, five in a thousand above 2.8.
    EXPECT_GT(how_many(values, [](double v) { return std::fabs(v) > 0x1p7; }), 500);
    EXPECT_GT(how_many(values, [](double v) { return std::fabs(v) < 0x1p-7; }), 1500);
    EXPECT_EQ(how_many(values, [](double v) { return std::fabs(v) > 5 * 0x1p8; }), 0);
    EXPECT_NEAR(static_cast<double>(how_many(values, [](double v) { return v > 0; })), 1e4, 500);
}

TEST(Elements, AreSpecialNowAndThen) {
    const auto values = drawn(Fill::normal(), DType::fp32, {100'000}, {Values::special});
    const auto nan = how_many(values, [](double v) { return std::isnan(v); });
    const auto above = how_many(values, [](double v) { return v == INFINITY; });
    const auto below = how_many(values, [](double v) { return v == -INFINITY; });
    const auto zero = how_many(values, [](double v) { return v == 0 && std::signbit(v); });
    for (const auto count : {nan, above, below, zero}) {
        EXPECT_GT(count, 20);
        EXPECT_LT(count, 1000) << "most rows have none";
    }
}

TEST(Elements, OfTiesArePowersOfTwoAndTies) {
    const auto values = drawn(Fill::normal(), DType::fp32, {20'000}, {Values::ties});
    std::map<double, int> powers;
    int others = 0, negative = 0;
    for (const double value : values) {
        int exponent = 0;
        negative += value < 0 ? 1 : 0;
        if (std::fabs(std::frexp(value, &exponent)) == 0.5)
            ++powers[value];
        else
            ++others;
        EXPECT_TRUE(std::fabs(value) <= 5 && std::fabs(value) >= 0x1p-11) << value;
    }
    for (double power = 0x1p-11; power <= 1; power *= 2) {
        EXPECT_GT(powers[power], 200) << power;
        EXPECT_GT(powers[-power], 200) << power;
    }
    EXPECT_GT(others, 5000);
    EXPECT_NEAR(negative, 10'000, 500);
    for (const DType dtype : {DType::fp8_e4m3, DType::fp8_e5m2, DType::fp4_e2m1, DType::bf16, DType::fp16}) {
        std::set<double> ties;
        for (const double value : values) {
            const double rounded = round_to(dtype, value), other = 2 * value - rounded;
            if (rounded != value && round_to(dtype, other) == other) ties.insert(std::fabs(value));
        }
        EXPECT_FALSE(ties.empty()) << name(dtype);
        if (dtype == DType::fp4_e2m1) continue;
        EXPECT_LT(*ties.begin(), 0.3) << name(dtype);
        EXPECT_GT(*ties.rbegin(), 3.5) << name(dtype);
    }
}

TEST(Elements, OfLargeTensorsRepeatTheFirstMillion) {
    constexpr std::int64_t kPeriod = 1'000'003;
    const auto values = drawn(Fill::normal(), DType::fp16, {kPeriod + 50});
    for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(values[static_cast<std::size_t>(kPeriod) + i], values[i]);
    EXPECT_FALSE(std::equal(values.begin(), values.begin() + 50, values.begin() + kPeriod / 2));
    EXPECT_NE(values[static_cast<std::size_t>(kPeriod) - 1], values[0]);
}

TEST(Elements, AreTheSameInAnyDTypeAndLayout) {
    Field field;
    const auto whole = drawn(field.fill, DType::fp32, {3, 4});
    float memory[64] = {};
    const std::int64_t shape[] = {3, 4}, stride[] = {20, 2};
    draw_input(field, Tensor(memory, DType::fp32, shape, stride), kUnknown, {}, Random(3));
    for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(memory[i / 4 * 20 + i % 4 * 2], whole[i]);
    EXPECT_EQ(std::count(std::begin(memory), std::end(memory), 0.0f), 64 - 12) << "gaps stay as they were";
    for (const DType dtype : {DType::bf16, DType::fp8_e5m2, DType::fp4_e2m1}) {
        const auto narrow = drawn(field.fill, dtype, {3, 4});
        for (std::size_t i = 0; i < 12; ++i)
            EXPECT_NEAR(narrow[i], round_to(dtype, whole[i]), dtype == DType::bf16 ? 0 : 0.51) << name(dtype);
    }
}

// Corpora and records name a seed: what it stands for stays.
TEST(Elements, OfASeedStayTheSame) {
    std::vector<double> firsts;
    for (const Values values : {Values::usual, Values::wide, Values::constant, Values::rising})
        firsts.push_back(drawn(Fill::normal(), DType::fp32, {2, 4}, {values})[5]);
    for (const Fill& fill : {Fill::index("n"), Fill::positions(100), Fill::count("n"), Fill::slots("n")})
        firsts.push_back(drawn(fill, DType::int32, {8}, {}, 50)[5]);
    const std::vector<double> then = {0.579834, 0.0124154, 0.579834, 1.30463, 43, 43, 19, 3};
    EXPECT_THAT(firsts, testing::Pointwise(testing::DoubleNear(1e-5), then));
}

// ---- integers ----

TEST(Integers, OfAnIndexAreBelowItsBound) {
    const auto index = drawn(Fill::index("n"), DType::int32, {2000}, {}, 7);
    EXPECT_EQ(std::set<double>(index.begin(), index.end()), (std::set<double>{0, 1, 2, 3, 4, 5, 6}));
    EXPECT_THAT(drawn(Fill::index("n"), DType::int32, {20}, {}, 1), Each(0.0));
    EXPECT_THAT(drawn(Fill::index("n"), DType::int32, {20}, {}, 0), Each(-1.0));
    const auto none = [&](const Fill& fill, Values values) {
        return how_many(drawn(fill, DType::int32, {2000}, {values}, 7), [](double v) { return v == -1; });
    };
    EXPECT_GT(none(Fill::index("n").or_minus_one(), Values::special), 100);
    EXPECT_LT(none(Fill::index("n").or_minus_one(), Values::special), 1000);
    EXPECT_EQ(none(Fill::index("n").or_minus_one(), Values::usual), 0) << "operators of PyTorch refuse it";
    EXPECT_EQ(none(Fill::index("n"), Values::special), 0);
}

std::set<double> range(double first, double last) {
    std::set<double> values;
    for (double value = first; value <= last; ++value) values.insert(value);
    return values;
}

std::set<double> all(const Fill& fill, DType dtype, std::int64_t limit = kUnknown) {
    const auto values = drawn(fill, dtype, {20'000}, {}, limit);
    return {values.begin(), values.end()};
}

TEST(Integers, ReachBothEndsOfTheirRangeAndNothingBeyond) {
    EXPECT_EQ(all(Fill::positions(10), DType::int32), range(0, 9));
    EXPECT_EQ(all(Fill::positions(10, "n"), DType::int32, 6), range(0, 5));
    EXPECT_EQ(all(Fill::positions(10, "n"), DType::int32, 60), range(0, 9));
    EXPECT_EQ(all(Fill::positions(10, "n"), DType::int32, 0), range(0, 9));
    EXPECT_EQ(all(Fill::count("n"), DType::int32, 6), range(0, 6));
    EXPECT_EQ(all(Fill::count("n"), DType::int32, 0), range(0, 0));
    EXPECT_EQ(all(Fill::lengths("n"), DType::int32, 6), range(-1, 26));
    EXPECT_EQ(all(Fill::lengths("n"), DType::int32, 0), range(-1, 20));
    EXPECT_EQ(all(Fill::mask(), DType::uint8), range(0, 255));
    EXPECT_EQ(all(Fill::mask(), DType::int8), range(0, 127));
    EXPECT_EQ(all(Fill::uniform(-3, 4), DType::int8), range(-3, 4));
    EXPECT_EQ(all(Fill::normal(), DType::uint8), range(0, 255));
    EXPECT_EQ(all(Fill::normal(), DType::int8), range(-100, 99));
    EXPECT_EQ(all(Fill::normal(), DType::int4), range(-8, 7));
    EXPECT_EQ(all(Fill::normal(), DType::int32), range(-100, 99));
    const auto beyond = drawn(Fill::uniform(0x1p39, 0x1p40), DType::int64, {100});
    EXPECT_THAT(beyond, Each(AllOf(Ge(0x1p39), Le(0x1p40)))) << "no 32 bits hold them";
    EXPECT_GT(std::ranges::max(beyond), 0x1.8p39);
}

TEST(Integers, OfACountAreOftenAllThereIs) {
    const auto counts = drawn(Fill::count("n"), DType::int32, {3000}, {}, 50);
    EXPECT_GT(how_many(counts, [](double v) { return v == 50; }), 300);
    EXPECT_GT(how_many(counts, [](double v) { return v < 25; }), 300);
    const auto lengths = drawn(Fill::lengths("n"), DType::int32, {3000}, {}, 5000);
    EXPECT_GT(how_many(lengths, [](double v) { return v == 5000; }), 300);
    EXPECT_GT(how_many(lengths, [](double v) { return v >= 0 && v < 2500; }), 300);
    const auto mask = drawn(Fill::mask(), DType::uint8, {3000});
    EXPECT_GT(how_many(mask, [](double v) { return v == 0; }), 300);
    EXPECT_GT(how_many(mask, [](double v) { return v != 0; }), 300);
}

TEST(Integers, OfGroupsBeginAtZeroAndEndAtTheirBound) {
    int extreme = 0, empty = 0;
    std::set<double> between;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        const auto at = drawn(Fill::offsets("n"), DType::int32, {6}, {}, 20, seed);
        EXPECT_EQ(at.front(), 0);
        EXPECT_EQ(at.back(), 20);
        EXPECT_TRUE(std::ranges::is_sorted(at)) << testing::PrintToString(at);
        between.insert(at.begin() + 1, at.end() - 1);
        extreme += std::all_of(at.begin(), at.end(), [](double v) { return v == 0 || v == 20; }) ? 1 : 0;
        empty += std::adjacent_find(at.begin(), at.end()) != at.end() ? 1 : 0;
    }
    EXPECT_EQ(between, range(0, 20));
    EXPECT_GT(extreme, 30);
    EXPECT_LT(extreme, 200);
    EXPECT_GT(empty, 100);
    EXPECT_THAT(drawn(Fill::offsets("n"), DType::int32, {1}, {}, 0), ElementsAre(0));
    EXPECT_THAT(drawn(Fill::offsets("n"), DType::int32, {2}, {}, 9), ElementsAre(0, 9));
    EXPECT_TRUE(drawn(Fill::offsets("n"), DType::int32, {0}, {}, 9).empty());
}

TEST(Integers, OfPartsAreNotNegativeAndHaveTheirBoundAsSum) {
    bool full = false, several = false, first = false, last = false;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        const auto parts = drawn(Fill::parts("n"), DType::int64, {4}, {}, 20, seed);
        EXPECT_THAT(parts, Each(Ge(0)));
        EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), 0.0), 20);
        full = full || std::ranges::max(parts) == 20;
        several = several || std::ranges::count(parts, 0) == 0;
        first = first || parts.front() > 0;
        last = last || parts.back() > 0;
    }
    EXPECT_TRUE(full && several && first && last);
    EXPECT_THAT(drawn(Fill::parts("n"), DType::int64, {1}, {}, 20), ElementsAre(20));
}

TEST(Integers, OfSlotsAreDifferentInAnyOrder) {
    std::set<double> first, last;
    int unsorted = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        const auto slots = drawn(Fill::slots("n"), DType::int32, {5}, {}, 8, seed);
        EXPECT_EQ(std::set(slots.begin(), slots.end()).size(), 5u);
        EXPECT_THAT(slots, Each(AllOf(Ge(0), Lt(8))));
        first.insert(slots.front()), last.insert(slots.back());
        unsorted += std::ranges::is_sorted(slots) ? 0 : 1;
    }
    EXPECT_EQ(first, range(0, 7));
    EXPECT_EQ(last, range(0, 7));
    EXPECT_GT(unsorted, 280);
    std::set<double> first_of_two;
    for (std::uint64_t seed = 0; seed < 30; ++seed)
        first_of_two.insert(drawn(Fill::slots("n"), DType::int32, {2}, {}, 2, seed).front());
    EXPECT_EQ(first_of_two, range(0, 1));
    const auto sorted = [](std::vector<double> values) {
        std::ranges::sort(values);
        return values;
    };
    EXPECT_THAT(sorted(drawn(Fill::slots("n"), DType::int32, {5}, {}, 5)), ElementsAre(0, 1, 2, 3, 4));
    EXPECT_THAT(sorted(drawn(Fill::slots("n").or_minus_one(), DType::int32, {5}, {}, 0)), Each(-1.0));
    int none = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        const auto slots = drawn(Fill::slots("n").or_minus_one(), DType::int32, {7}, {}, 40, seed);
        none += static_cast<int>(std::ranges::count(slots, -1.0));
        const auto few = sorted(drawn(Fill::slots("n").or_minus_one(), DType::int32, {7}, {}, 2, seed));
        EXPECT_GE(std::ranges::count(few, -1.0), 5) << "no number is left";
    }
    EXPECT_GT(none, 150);
    EXPECT_LT(none, 600);
}

// A bound that is not known: the rule cannot be kept, and none is drawn by it.
TEST(Integers, WithoutABoundAreAny) {
    for (const Fill& fill : {Fill::slots("n"), Fill::offsets("n"), Fill::parts("n")})
        EXPECT_GT(std::ranges::max(drawn(fill, DType::int32, {200})), 50);
}

TEST(Integers, OutsideARuleAreThoseThatAreTakenForOthers) {
    const auto outside = [](const Fill& fill, std::int64_t limit) {
        const auto values = drawn(fill, DType::int64, {8000}, {Values::special, true}, limit);
        return std::set<double>(values.begin(), values.end());
    };
    std::set<double> expected = range(0, 5);
    for (const double other : {-1.0, 5.0, 6.0}) expected.insert(other);
    for (double within = 0; within < 5; ++within) {
        for (const double other :
             {-1 - within, 0x1p31 + within, 0x1p32 + within, 0x1p40 + within, within - 0x1p32})
            expected.insert(other);
    }
    EXPECT_EQ(outside(Fill::index("n").outside_is_defined(), 5), expected);
    const auto positions = outside(Fill::positions(5).outside_is_defined(), kUnknown);
    EXPECT_EQ(positions, expected) << "the range ends where positions do";
    const auto values =
        drawn(Fill::index("n").outside_is_defined(), DType::int64, {8000}, {Values::special, true}, 5);
    const auto inside = how_many(values, [](double v) { return v >= 0 && v < 5; });
    EXPECT_GT(inside, 4000) << "most keep the rule";
    EXPECT_LT(inside, 7500);
}

}  // namespace
}  // namespace weft::test
