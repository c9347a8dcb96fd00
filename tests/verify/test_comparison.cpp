// Which elements lie within what is allowed, what else a call must leave alone, and what is said of either.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/verify/judged.h"
#include "verify/verify.h"

namespace weft::test {
namespace {

using testing::HasSubstr;
using testing::StrEq;

using Comparison = ComparisonTest;

struct Element {
    double value, error, got;
};

// One row of such elements, in `out`.
Outcome judged(DType dtype, const std::vector<Element>& elements) {
    Judged::says = [&](const Judged& op, Oracle& oracle) {
        for (std::size_t i = 0; i < elements.size(); ++i)
            oracle.store(op.out, static_cast<std::int64_t>(i), elements[i].value, elements[i].error);
    };
    Judged::does = [&](const Judged& op) {
        for (std::size_t i = 0; i < elements.size(); ++i)
            store_element(op.out.dtype, op.out.data, static_cast<std::int64_t>(i), elements[i].got);
    };
    const std::string size = std::to_string(elements.size());
    return verify(Case::parse("judged x=fp32[1," + size + "] out=" + std::string(name(dtype))), kCpu);
}

TEST_F(Comparison, AllowsTheRoundedIntervalToItsEnds) {
    EXPECT_TRUE(judged(DType::fp32, {{1, 0.25, 0.75}, {1, 0.25, 1.25}, {1, 0, 1}}).passed);
    EXPECT_THAT(judged(DType::fp32, {{1, 0.25, 0.75 - 0x1p-24}}).why, HasSubstr("out[0,0]: got 0.74999994,"));
    EXPECT_THAT(judged(DType::fp32, {{1, 0, 1}, {1, 0.25, 1.5}}).why,
                StrEq("out[0,1]: got 1.5, expected 1 (reference 1, fp32 error up to 0.25)"));
    EXPECT_THAT(judged(DType::bf16, {{1 + 0x1p-10, 0, 1.5}}).why,
                StrEq("out[0,0]: got 1.5, expected 1 (reference 1.00097656, fp32 error up to 0)"));
    // An error that crosses a rounding boundary allows the neighbour, and one that does not, does not.
    EXPECT_TRUE(judged(DType::bf16, {{1 + 0x1p-8 - 0x1p-20, 0x1p-18, 1 + 0x1p-7}}).passed);
    EXPECT_FALSE(judged(DType::bf16, {{1 + 0x1p-8 - 0x1p-18, 0x1p-20, 1 + 0x1p-7}}).passed);
}

TEST_F(Comparison, MeasuresTheDistanceInUnitsOfWhatIsAllowed) {
    EXPECT_EQ(judged(DType::fp32, {{1, 0, 1}}).worst, 0);
    EXPECT_EQ(judged(DType::fp32, {{1, 0.25, 1.125}}).worst, 0.5);
    EXPECT_EQ(judged(DType::fp32, {{1, 0.25, 0.875}}).worst, 0.5);
    EXPECT_EQ(judged(DType::fp32, {{1, 0.25, 1.0625}, {1, 0.25, 1.25}, {1, 0.25, 1}}).worst, 1);
    // Rounding makes an interval from 1 to 1 + 2^-7 of 1 + 2^-10 and an error of 2^-8: the wider side is the unit.
    EXPECT_EQ(judged(DType::bf16, {{1 + 0x1p-10, 0x1p-8, 1}}).worst, 0x1p-10 / (0x1p-7 - 0x1p-10));
    EXPECT_EQ(judged(DType::bf16, {{1 + 0x1p-10, 0x1p-8, 1 + 0x1p-7}}).worst, 1);
    EXPECT_EQ(judged(DType::fp16, {{60000, 1e6, 60000}}).worst, 0) << "an interval without an end";
}

TEST_F(Comparison, TellsWhatIsNoNumber) {
    EXPECT_TRUE(
        judged(DType::fp32, {{NAN, 0, NAN}, {INFINITY, 0, INFINITY}, {-INFINITY, 0, -INFINITY}}).passed);
    EXPECT_EQ(judged(DType::fp32, {{NAN, 0, NAN}, {INFINITY, 0, INFINITY}}).worst, 0);
    EXPECT_THAT(judged(DType::fp32, {{NAN, 0, 1}}).why, HasSubstr("got 1, expected nan (reference nan,"));
    EXPECT_THAT(judged(DType::fp32, {{1, 1, NAN}}).why, HasSubstr("got nan, expected 1"));
    EXPECT_THAT(judged(DType::fp32, {{INFINITY, 0, 3e38}}).why, HasSubstr("expected inf"));
    EXPECT_THAT(judged(DType::fp32, {{INFINITY, 0, NAN}}).why, HasSubstr("got nan, expected inf"));
    EXPECT_TRUE(judged(DType::fp8_e4m3, {{INFINITY, 0, 448}, {-INFINITY, 0, -448}}).passed)
        << "fp8 saturates";
    EXPECT_FALSE(judged(DType::fp8_e4m3, {{INFINITY, 0, 416}}).passed);
    const double any = Oracle::kUndetermined;
    EXPECT_TRUE(judged(DType::fp32, {{1, any, NAN}, {1, any, 7}, {NAN, any, 1}, {INFINITY, any, 0}}).passed);
}

TEST_F(Comparison, NamesThePlaceOfAnElementByItsIndex) {
    const auto wrong = [](const std::string& line, std::int64_t offset) {
        Judged::does = [=](const Judged& op) {
            for_each_offset(op.out, [&](std::int64_t i) {
                store_element(op.out.dtype, op.out.data, i, i == offset ? 9 : 0);
            });
        };
        const std::string why = verify(Case::parse(line), kCpu).why;
        return why.substr(0, why.find(':'));
    };
    EXPECT_EQ(wrong("judged x=fp32[2,3,4]", 12 + 4 + 2), "out[1,1,2]");
    EXPECT_EQ(wrong("judged x=fp32[2,1,4]", 4 + 3), "out[1,0,3]");
    EXPECT_EQ(wrong("judged x=fp32[2,3,4] out=fp32[2,3,4]{1,8,2}", 1 + 16 + 6), "out[1,2,3]");
    EXPECT_EQ(wrong("judged x=fp32[2,3,4] out=fp32[2,3,4]{12,4,1}+5", 12 + 4 + 2), "out[1,1,2]");
    EXPECT_EQ(wrong("judged x=fp32[1,2,3] out=fp8_e4m3", 5), "out[0,1,2]");
}

TEST_F(Comparison, HoldsWhatTheReferenceLeavesAloneToWhatItWas) {
    const auto clear = [](const Tensor& t) {
        for_each_offset(t, [&](std::int64_t i) { store_element(t.dtype, t.data, i, 0); });
    };
    // The reference writes of `kept` and `some` the first element alone, of `out` all but the last `less`.
    static std::int64_t less;
    less = 0;
    Judged::says = [&](const Judged& op, Oracle& oracle) {
        for (std::int64_t i = 0; i < op.out.numel() - less; ++i) oracle.store(op.out, i, 0);
        if (op.kept) oracle.store(op.kept, 0, 3);
        if (op.some) oracle.store(op.some, 0, 4);
    };
    static std::int64_t kept_at, some_at;
    kept_at = some_at = -1;
    Judged::does = [&](const Judged& op) {
        clear(op.out);
        if (op.kept) op.kept.as<float>()[0] = 3;
        if (op.some) op.some.as<float>()[0] = 4;
        if (kept_at >= 0) op.kept.as<float>()[kept_at] = 7.5f;
        if (some_at >= 0) op.some.as<float>()[some_at] = 8.5f;
    };
    const Case c = Case::parse("judged x=fp32[2,3] kept=fp32[2,3] some=fp32[2,3]");
    EXPECT_EQ(verify(c, kCpu).why, "");
    kept_at = 4;
    EXPECT_THAT(verify(c, kCpu).why,
                testing::MatchesRegex("kept\\[1,1\\]: is not the op's to write, and changed from .* to 7.5"));
    kept_at = -1, some_at = 5;
    EXPECT_THAT(verify(c, kCpu).why,
                testing::MatchesRegex("some\\[1,2\\]: is not the op's to write, and changed from .* to 8.5"));
    some_at = -1, less = 1;
    EXPECT_EQ(verify(c, kCpu).why, "out[1,2]: the reference left it unwritten");
    less = 6;
    EXPECT_EQ(verify(c, kCpu).why, "out[0,0]: the reference left it unwritten");
}

TEST_F(Comparison, NamesTheByteThatIsNotTheOpsToWrite) {
    static std::int64_t at;
    Judged::does = [](const Judged& op) {
        for_each_offset(op.out, [&](std::int64_t i) { store_element(op.out.dtype, op.out.data, i, 0); });
        static_cast<unsigned char*>(op.x.data)[at] ^= 0x10;
    };
    at = 11;
    EXPECT_EQ(verify(Case::parse("judged x=bf16[2,4]+3"), kCpu).why,
              "x: byte 11 of its memory is not the op's to write, and changed");
#if !defined(__SANITIZE_ADDRESS__)
    at = -1;
    EXPECT_EQ(verify(Case::parse("judged x=bf16[2,4]+3"), kCpu).why,
              "x: byte -1 of its memory is not the op's to write, and changed");
#endif
}

TEST_F(Comparison, LooksAtTheRestOfTheResultThatWasComparedLast) {
    const Case c = Case::parse("judged x=fp32[2,4]");
    const Instance operands(c, kCpu, 3, Values::usual), result(c, kCpu, 3, Values::usual);
    Context context(kCpu);
    result.run(context);
    Reference reference(operands);
    const Outcome outcome = reference.compare(result);
    EXPECT_TRUE(outcome.passed) << outcome.why;
    EXPECT_NE(outcome.bits, 0u);
    EXPECT_EQ(reference.compare_rest(result), "");
    auto* x = static_cast<const Judged*>(result.call())->x.as<float>();
    x[1] = -x[1];
    EXPECT_FALSE(reference.compare(result).passed);
    EXPECT_EQ(reference.compare_rest(result),
              "x: byte 7 of its memory is not the op's to write, and changed");
}

}  // namespace
}  // namespace weft::test
