// Axis patterns: what binds, what is worked out, what is said where shapes disagree.
#include <gmock/gmock.h>

#include "weft/axes.h"
#include "weft/error.h"

namespace weft {
namespace {

Tensor shape(std::initializer_list<std::int64_t> sizes) { return Tensor(nullptr, DType::fp32, sizes); }

struct Fixture : testing::Test {
    AxisPattern parse(const char* text) { return AxisPattern::parse(text, names); }
    std::int64_t size(const char* name) const {
        return matcher.sizes.size[static_cast<std::size_t>(names.find(name))];
    }

    AxisNames names;
    AxisMatcher matcher{names};
};
using Axes = Fixture;

TEST_F(Axes, NamesBindAndThenMustAgree) {
    EXPECT_EQ(matcher.match(parse("rows dim"), shape({4, 64})), "");
    EXPECT_EQ(size("rows"), 4);
    EXPECT_EQ(matcher.match(parse("dim"), shape({64})), "");
    EXPECT_EQ(matcher.match(parse("dim"), shape({63})), "expected [dim=64], got [63]");
    EXPECT_EQ(matcher.match(parse("rows dim"), shape({4})), "expected [rows=4, dim=64], got [4]");
}

TEST_F(Axes, LeadingAxesAreTheSameEverywhere) {
    const Tensor x = shape({2, 3, 64});
    EXPECT_EQ(matcher.match(parse("... dim"), x), "");
    EXPECT_EQ(matcher.match(parse("..."), shape({2, 3})), "");
    EXPECT_EQ(matcher.match(parse("... dim"), shape({2, 4, 64})),
              "expected [...=(2, 3), dim=64], got [2, 4, 64]");
    EXPECT_EQ(matcher.match(parse("..."), shape({6})), "expected [...=(2, 3)], got [6]");
    std::vector<std::int64_t> out;
    EXPECT_TRUE(matcher.shape(parse("... dim 2*dim"), out));
    EXPECT_THAT(out, testing::ElementsAre(2, 3, 64, 128));
}

TEST_F(Axes, NoLeadingAxesAreAScalarOfOneElement) {
    const Tensor x = shape({64});
    EXPECT_EQ(matcher.match(parse("... dim"), x), "");
    EXPECT_EQ(matcher.match(parse("..."), shape({1})), "");
    EXPECT_EQ(matcher.match(parse("..."), Tensor(nullptr, DType::fp32, std::span<const std::int64_t>())), "");
    EXPECT_NE(matcher.match(parse("..."), shape({2})), "");
}

TEST_F(Axes, CompositeAxesAreSolvedForTheirOnlyUnknown) {
    EXPECT_EQ(matcher.match(parse("tokens (q_heads+2*kv_heads)*head_dim"), shape({5, 2560})), "");
    EXPECT_EQ(size("q_heads"), kUnknown);  // three unknowns: nothing is known yet
    EXPECT_EQ(matcher.match(parse("tokens q_heads head_dim"), shape({5, 8, 256})), "");
    EXPECT_EQ(matcher.match(parse("tokens (q_heads+2*kv_heads)*head_dim"), shape({5, 2560})), "");
    EXPECT_EQ(size("kv_heads"), 1);
    EXPECT_EQ(matcher.match(parse("(q_heads+2*kv_heads)*head_dim"), shape({2561})),
              "expected [(q_heads+2*kv_heads)*head_dim=2560], got [2561]");
}

TEST_F(Axes, IndivisibleSizesSolveNothing) {
    EXPECT_EQ(matcher.match(parse("2*hidden"), shape({7})),
              "");  // whether it fits is found where hidden is bound
    EXPECT_EQ(size("hidden"), kUnknown);
    EXPECT_EQ(matcher.match(parse("hidden"), shape({4})), "");
    EXPECT_EQ(matcher.match(parse("2*hidden"), shape({7})), "expected [2*hidden=8], got [7]");
}

TEST_F(Axes, AScalarHasRankZeroOrOne) {
    EXPECT_EQ(matcher.match(parse("1"), shape({1})), "");
    EXPECT_EQ(matcher.match(parse("1"), Tensor(nullptr, DType::fp32, std::span<const std::int64_t>())), "");
    EXPECT_EQ(matcher.match(parse("1"), shape({2})), "expected [1], got [2]");
}

TEST_F(Axes, MalformedPatternsAreDefects) {
    for (const char* text : {"a+", "(a", "a)", "*", "a**b"}) {
        AxisNames fresh;
        EXPECT_THROW(AxisPattern::parse(text, fresh), Error) << text;
    }
}

}  // namespace
}  // namespace weft
