// Axis patterns: what binds, what is worked out, what is said where shapes disagree.
#include <gmock/gmock.h>

#include <limits>

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

TEST_F(Axes, WhatIsRoundedUpIsNotSolvedFor) {
    for (const char* text : {"ceil(dim/4)", "pad(dim,4)", "2*ceil(dim/4)"}) {
        EXPECT_EQ(matcher.match(parse(text), shape({4})), "") << text;
        EXPECT_EQ(size("dim"), kUnknown) << text;
    }
    EXPECT_EQ(matcher.match(parse("ceil(dim/4)"), shape({1})), "");
    EXPECT_EQ(size("dim"), kUnknown) << "ceil(1/4) is 1, and so is ceil(3/4)";
    EXPECT_EQ(matcher.match(parse("dim"), shape({5})), "");
    EXPECT_EQ(matcher.match(parse("ceil(dim/4)"), shape({2})), "");
    EXPECT_EQ(matcher.match(parse("ceil(dim/4)"), shape({1})), "expected [ceil(dim/4)=2], got [1]");
}

TEST_F(Axes, ATildeNeedsAnAxisForItsOwn) {
    EXPECT_EQ(matcher.match(parse("..."), shape({1, 2, 1, 2, 1, 2})), "");
    EXPECT_EQ(matcher.match(parse("dim"), shape({3})), "");
    EXPECT_NE(matcher.match(parse("~... dim"), shape({3})), "");
}

TEST_F(Axes, ATildeBroadcastsToTheLeadingAxes) {
    const Tensor x = shape({2, 12, 64});
    EXPECT_EQ(matcher.match(parse("... dim"), x), "");
    for (const Tensor& operand :
         {shape({64}), shape({2, 64}), shape({1, 12, 64}), shape({2, 12, 1}), shape({1})})
        EXPECT_EQ(matcher.match(parse("~... dim"), operand), "") << to_string(operand);
    EXPECT_EQ(matcher.match(parse("~... dim"), shape({12, 64})),
              "expected [what broadcasts to ...=(2, 12), dim=64], got [12, 64]");
    EXPECT_EQ(matcher.match(parse("~... dim"), shape({2, 3, 1, 64})), "");
    EXPECT_NE(matcher.match(parse("~... dim"), shape({2, 4, 1, 64})), "") << "frames are the same everywhere";
    EXPECT_THROW(parse("~... rows dim"), Error);
}

TEST_F(Axes, AnyAxesMayStandBetweenOthers) {
    const Tensor x = shape({2, 8, 5, 7, 3});
    EXPECT_EQ(matcher.match(parse("batch channels ..."), x), "");
    EXPECT_EQ(size("channels"), 8);
    EXPECT_EQ(matcher.match(parse("batch ... channels"), shape({2, 5, 7, 3, 8})), "");
    EXPECT_EQ(matcher.match(parse("..."), shape({5, 7, 3})), "");
    EXPECT_EQ(matcher.match(parse("batch channels ..."), shape({2, 8, 5, 7})),
              "expected [batch=2, channels=8, ...=(5, 7, 3)], got [2, 8, 5, 7]");
    EXPECT_EQ(matcher.match(parse("batch ... channels"), shape({2, 5, 7, 3, 9})),
              "expected [batch=2, ...=(5, 7, 3), channels=8], got [2, 5, 7, 3, 9]");
    EXPECT_NE(matcher.match(parse("batch channels ..."), shape({2})), "");
    std::vector<std::int64_t> out;
    EXPECT_TRUE(matcher.shape(parse("channels ... 2*batch ceil(.../10)"), out));
    EXPECT_THAT(out, testing::ElementsAre(8, 5, 7, 3, 4, 11));
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

TEST_F(Axes, GroupsAndPaddingAreWorkedOut) {
    const Tensor x = shape({3, 43, 100});  // "..." is read from it from now on
    EXPECT_EQ(matcher.match(parse("... dim"), x), "");
    EXPECT_EQ(matcher.match(parse("... ceil(dim/16)"), shape({3, 43, 7})), "");
    EXPECT_EQ(matcher.match(parse("... ceil(dim/16)"), shape({3, 43, 6})),
              "expected [...=(3, 43), ceil(dim/16)=7], got [3, 43, 6]");
    EXPECT_EQ(matcher.match(parse("pad(...,128) pad(ceil(dim/16),4)"), shape({256, 8})), "");
    EXPECT_EQ(matcher.match(parse("pad(...,128) pad(ceil(dim/16),4)"), shape({129, 8})),
              "expected [pad(...,128)=256, pad(ceil(dim/16),4)=8], got [129, 8]");
    std::vector<std::int64_t> out;
    EXPECT_TRUE(matcher.shape(parse("ceil(.../128) ceil(2*dim/(2*dim)) ceil(dim/100)*3 pad(dim,100)"), out));
    EXPECT_THAT(out, testing::ElementsAre(2, 1, 3, 100));
    EXPECT_TRUE(matcher.shape(parse("ceil(dim/0) pad(dim,0) ceil(0/16) pad(0,128)"), out));
    EXPECT_THAT(out, testing::Each(0));
}

TEST_F(Axes, WhatIsRoundedDeterminesNothing) {
    std::vector<std::int64_t> out;
    EXPECT_FALSE(matcher.shape(parse("pad(...,128)"), out));
    EXPECT_EQ(matcher.match(parse("pad(...,128) ceil(dim/16)*heads"), shape({128, 12})), "");
    EXPECT_EQ(size("dim"), kUnknown);
    EXPECT_EQ(matcher.match(parse("dim"), shape({64})), "");
    EXPECT_EQ(matcher.match(parse("ceil(dim/16)*heads"), shape({12})), "");
    EXPECT_EQ(size("heads"), 3);  // which is not what is rounded
}

TEST_F(Axes, ExpressionsDoNotOverflow) {
    EXPECT_EQ(matcher.match(parse("n"), shape({kMostElements})), "");
    std::vector<std::int64_t> out;
    EXPECT_TRUE(matcher.shape(parse("n*n n*n+n pad(n*n,16)"), out));
    EXPECT_THAT(out, testing::Each(std::numeric_limits<std::int64_t>::max()));
    EXPECT_EQ(matcher.match(parse("square*square"), shape({7})), "");
    EXPECT_EQ(size("square"), kUnknown);  // not linear
}

TEST_F(Axes, AScalarHasRankZeroOrOne) {
    EXPECT_EQ(matcher.match(parse("1"), shape({1})), "");
    EXPECT_EQ(matcher.match(parse("1"), Tensor(nullptr, DType::fp32, std::span<const std::int64_t>())), "");
    EXPECT_EQ(matcher.match(parse("1"), shape({2})), "expected [1], got [2]");
}

TEST_F(Axes, MalformedPatternsAreDefects) {
    for (const char* text :
         {"a+", "(a", "a)", "*", "a**b", "ceil(a)", "ceil(a,2)", "pad(a/2)", "pad(a,2", "a/2", "a,2", "....",
          "2a", "99999999999999999999", "a+(b*(c+(d*(e+(f*(g+(h*i)))))))"}) {
        AxisNames fresh;
        EXPECT_THROW(AxisPattern::parse(text, fresh), Error) << text;
    }
}

}  // namespace
}  // namespace weft
