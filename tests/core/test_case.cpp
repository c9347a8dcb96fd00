// Case lines: text and back, inference, and errors that show the place.
#include "weft/case.h"

#include <gmock/gmock.h>

#include "tests/core/probe.h"
#include "verify/generate.h"

namespace weft::test {
namespace {

using testing::HasSubstr;
using testing::StrEq;

std::string message(const std::string& line) {
    try {
        Case::parse(line).check();
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::invalid_argument) << line;
        return e.what();
    }
    return "accepted";
}

TEST(CaseLines, PrintWhatTheyWereReadFrom) {
    for (const std::string line :
         {"probe x=bf16[4,8] out=bf16[4,8]", "probe x=fp32[2,3,8]{48,16,1} weight=fp16[8] out=fp32[2,3,8]",
          "probe x=bf16[4,8]+3 y=bf16[4,8]{1,4} out=@x sums=fp32[4] factor=0.5 negate=true mode=doubled",
          "probe x=bf16[0,8] out=bf16[0,8]",
          "probe x=bf16[4,8] packed=fp4_e2m1[9,32] out=bf16[4,8] groups=2"}) {
        EXPECT_EQ(Case::parse(line).line(), line);
        EXPECT_EQ(message(line), "accepted") << line;
    }
}

TEST(CaseLines, InferOutputs) {
    EXPECT_EQ(Case::parse("probe x=bf16[4,8]").line(), "probe x=bf16[4,8] out=bf16[4,8]");
    EXPECT_EQ(Case::parse("probe x=bf16[4,8] out=fp32 sums=fp32").line(),
              "probe x=bf16[4,8] out=fp32[4,8] sums=fp32[4]");
    EXPECT_EQ(Case::parse("probe x=bf16[8] sums=fp32").line(), "probe x=bf16[8] out=bf16[8] sums=fp32[1]");
    EXPECT_EQ(message("probe x=bf16[8] sums=fp32"), "accepted");
    EXPECT_THAT(
        message("probe x=bf16[4,8] packed=fp4_e2m1"),
        HasSubstr("probe.packed: its shape rows (groups+2)*dim doesn't follow from the other fields"));
}

TEST(CaseLines, InferTheFirstFieldToo) {
    EXPECT_EQ(Case::parse("probe x=bf16 out=bf16[4,8]").line(), "probe x=bf16[4,8] out=bf16[4,8]");
    EXPECT_EQ(Case::parse("probe x=@out out=bf16[4,8]").line(), "probe x=@out out=bf16[4,8]");
    EXPECT_EQ(Case::parse("probe x=bf16 sums=fp32[4] weight=bf16[8]").line(),
              "probe x=bf16[4,8] weight=bf16[8] out=bf16[4,8] sums=fp32[4]");
}

TEST(CaseLines, TakeOptionsInAnyPlaceAndForm) {
    EXPECT_EQ(Case::parse("probe factor=0.50 x=bf16[4,8]  mode=plain").line(),
              "probe x=bf16[4,8] out=bf16[4,8] factor=0.5");
    EXPECT_EQ(Case::parse("probe x=bf16[1,8] factor=1e-6").line(),
              "probe x=bf16[1,8] out=bf16[1,8] factor=1e-06");
}

TEST(CaseLines, ErrorsShowThePlace) {
    EXPECT_THAT(message("prob x=bf16[4]"), HasSubstr("no such op"));
    EXPECT_THAT(message("probe x=bf17[4,8]"), HasSubstr("expected a dtype"));
    EXPECT_THAT(message("probe x=bf17[4,8]"), HasSubstr("probe x=bf17[4,8]\n"));
    EXPECT_THAT(message("probe z=bf16[4,8]"),
                HasSubstr("probe has no field or option of this name at column 7"));
    EXPECT_THAT(message("probe x=bf16[4,8"), HasSubstr("expected ']'"));
    EXPECT_THAT(message("probe x=bf16[4,]"), HasSubstr("expected a whole number"));
    EXPECT_THAT(message("probe x=bf16[4,-8]"), HasSubstr("expected a whole number"));
    EXPECT_THAT(message("probe x=bf16[4,8]{8}"), HasSubstr("one stride an axis"));
    EXPECT_THAT(message("probe x=bf16[4,8]x"), HasSubstr("unexpected text"));
    EXPECT_THAT(message("probe x=bf16[1,1,1,1,1,1,1]"), HasSubstr("more than 6 axes"));
    EXPECT_THAT(message("probe x=bf16[4,8] x=bf16[4,8]"), HasSubstr("given twice"));
    EXPECT_THAT(message("probe x=bf16[4,8] negate=yes"), HasSubstr("expected true or false"));
    EXPECT_THAT(message("probe x=bf16[4,8] mode=tripled"), HasSubstr("expected one of plain, doubled"));
    EXPECT_THAT(message("probe x=bf16[4,8] factor=9"), HasSubstr("expected a value in [-8, 8] at column"));
    EXPECT_THAT(message("probe x=bf16[4,8] factor=-8.5"), HasSubstr("expected a value in [-8, 8] at column"));
    EXPECT_THAT(message("probe x=bf16[4,8] factor=nan"), HasSubstr("expected a value in [-8, 8]"));
    EXPECT_THAT(message("probe x=bf16[4,8] factor=1x"), HasSubstr("expected a number"));
    EXPECT_THAT(message("probe x=bf16[4,8] groups=1.5"), HasSubstr("expected a whole number"));
    EXPECT_THAT(message("probe x=bf16[4,8] out=@z"), HasSubstr("no such field"));
    EXPECT_THAT(message("probe x=bf16[4,8] out=@weight"), HasSubstr("can't be shared: it is absent"));
    EXPECT_THAT(message("probe x=bf16[99999999999,99999999999]"), HasSubstr("too large"));
    EXPECT_THAT(message(""), HasSubstr("no such op"));
    EXPECT_THAT(message("probe x=bf16[4,8] factor=2 factor=2"), HasSubstr("given twice at column 35"));
    EXPECT_THAT(message("probe x=bf16[4,8]{4611686018427387904,1}"), HasSubstr("too large"));
    EXPECT_THAT(message("probe x=bf16[4,8] y=@x out=@y"),
                HasSubstr("probe.y: can't be shared: it is absent, or shares another's memory itself"));
    EXPECT_THAT(message("probe x=bf16[4,8] out=@out"), HasSubstr("probe.out: can't be shared"));
    EXPECT_THAT(message("probe x=bf16[4,8] packed=fp4_e2m1[9,32]+1 groups=2"),
                HasSubstr("an element that starts inside a byte"));
    EXPECT_THAT(message("probe x=bf16[4,8] out=bf16[4,8]{4,1}"),
                StrEq("probe.out: its own elements must not overlap, got bf16[4,8]{4,1}"));
}

TEST(CaseLines, AreCheckedAsCallsAre) {
    EXPECT_THAT(message("probe x=bf16[4,8] weight=fp32[7]"),
                StrEq("probe.weight: expected [dim=8], got [7]"));
    EXPECT_THAT(message("probe weight=fp32[8]"), HasSubstr("probe"));
}

TEST(CaseLines, AreMadeOfCalls) {
    const std::string line = "probe x=bf16[4,8]{16,1}+3 y=bf16[4,8] out=@x factor=2";
    const Case c = Case::parse(line);
    std::vector<std::max_align_t> x(64), y(64), call(64);
    c.bind(call.data(), {x.data(), nullptr, y.data(), nullptr, nullptr, nullptr, nullptr}, kCpu);
    EXPECT_EQ(Case::of(c.op(), call.data()).line(), line);
}

// The same memory in elements as wide is not the same view.
TEST(CaseLines, OfCallsSayAnOutputsOwnDType) {
    const Case c = Case::parse("probe x=bf16[4,8] out=fp16[4,8]");
    std::vector<std::max_align_t> x(64), call(64);
    std::vector<void*> bases(c.tensors.size(), nullptr);
    bases.front() = bases[static_cast<std::size_t>(c.contract().find_field("out"))] = x.data();
    c.bind(call.data(), bases, kCpu);
    EXPECT_NO_THROW(c.contract().check(call.data()));
    EXPECT_EQ(Case::of(c.op(), call.data()).line(), "probe x=bf16[4,8] out=fp16[4,8]");
}

// What kernels can tell of an address is said in elements, of which a byte may have two.
TEST(CaseLines, OfCallsSayWhereTheirElementsBegin) {
    for (const char* line : {"probe x=bf16[4,8]+3 packed=fp4_e2m1[9,32]+6 groups=2 out=fp32[4,8]+1",
                             "probe x=bf16[4,8]+7 packed=fp4_e2m1[9,32]+30 groups=2 out=fp32[4,8]+2"}) {
        const Case c = Case::parse(line);
        std::vector<std::max_align_t> memory(256), call(64);
        std::vector<void*> bases;
        for (std::size_t i = 0; i < c.tensors.size(); ++i)
            bases.push_back(c.tensors[i].present ? &memory[32 * i] : nullptr);
        c.bind(call.data(), bases, kCpu);
        EXPECT_EQ(Case::of(c.op(), call.data()).line(), c.line());
    }
}

// One element, however many axes a caller gave it.
TEST(CaseLines, OfCallsSayAScalarAsOneElement) {
    float x[8] = {}, out[8] = {}, state = 0;
    Probe op;
    op.x = Tensor(&x[0], DType::fp32, {1, 8});
    op.out = Tensor(&out[0], DType::fp32, {1, 8});
    op.state = Tensor(&state, DType::fp32, {});
    const std::string line = Case::of(*find_op("probe"), &op).line();
    EXPECT_THAT(line, HasSubstr(" state=fp32[1]"));
    EXPECT_EQ(Case::parse(line).line(), line);
}

TEST(CaseLines, OfGeneratedCasesRoundTrip) {
    Random random(3);
    for (int i = 0; i < 500; ++i) {
        const auto c = generate(*find_op("probe"), device_info(kCpu), random, {});
        ASSERT_TRUE(c.has_value());
        EXPECT_EQ(Case::parse(c->line()), *c) << c->line();
    }
}

}  // namespace
}  // namespace weft::test
