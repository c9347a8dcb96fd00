// The verifier finds what it is there to find: a planted fault each.
#include "verify/verify.h"

#include <gmock/gmock.h>

#include <cstring>

#include "tests/core/probe.h"
#if WEFT_HAS_EMULATOR
#include "emulator/emulator.h"
#endif
#include "verify/fuzz.h"
#include "verify/trial.h"
#include "verify/written.h"

namespace weft::test {
namespace {

using testing::HasSubstr;

// Runs a faulty implementation in front of the probe's reference.
Outcome with(
    void (*launch)(const Probe&),
    const std::string& line = "probe x=fp32[3,8]{16,1} weight=fp32[8] out=fp32[3,8]{16,1} sums=fp32[3]",
    Values values = Values::usual) {
    static void (*fault)(const Probe&);
    fault = launch;
    static const OpEntry kEntry = [] {
        OpEntry entry = *find_op("probe");
        entry.implementations[0] = {{"faulty",
                                     +[](const Probe&, const DeviceInfo&) -> const char* { return nullptr; },
                                     +[](const Probe&, const DeviceInfo&) { return std::string("planted"); },
                                     +[](const Probe& probe, Context&) {
                                         Oracle plain;
                                         reference(probe, plain);
                                         fault(probe);
                                     }}};
        return entry;
    }();
    Case parsed = Case::parse(line);
    Case c(kEntry);
    c.tensors = parsed.tensors;
    c.options = parsed.options;
    return verify(c, kCpu, 0, values);
}

TEST(Verifier, PassesTheReference) {
    const Outcome outcome = with([](const Probe&) {});
    EXPECT_TRUE(outcome.passed) << outcome.why;
    EXPECT_EQ(outcome.implementation, "faulty planted");
    EXPECT_LE(outcome.worst, 1);
}

TEST(Verifier, AllowsWhatFp32RoundingExplainsAndNoMore) {
    EXPECT_TRUE(with([](const Probe& op) { op.out.as<float>()[1] *= 1 + 0x1p-23f; }).passed);
    const Outcome outcome = with([](const Probe& op) { op.out.as<float>()[17] *= 1 + 0x1p-20f; });
    EXPECT_FALSE(outcome.passed);
    EXPECT_THAT(outcome.why, HasSubstr("out[1,1]: got"));
}

TEST(Verifier, SeesAnElementLeftUnwritten) {
    const Outcome outcome = with([](const Probe& op) { std::memset(op.out.as<float>() + 3, 0xff, 4); });
    EXPECT_THAT(outcome.why, HasSubstr("out[0,3]: got nan"));
}

TEST(Verifier, SeesWritesIntoGapsAndInputs) {
    EXPECT_THAT(with([](const Probe& op) { op.out.as<float>()[8] = 0; }).why,
                HasSubstr("out: byte 32 of its memory is not the op's to write"));
    EXPECT_THAT(with([](const Probe& op) { op.weight.as<float>()[0] += 1; }).why,
                HasSubstr("weight: byte 0 of its memory is not the op's to write"));
}

TEST(Verifier, SeesResultsThatDependOnWhatNothingWrote) {
    const Outcome outcome = with([](const Probe& op) {
        static int calls = 0;
        op.out.as<float>()[2] *= 1 + (++calls % 2 == 0 ? 0 : 0x1p-23f);
    });
    EXPECT_THAT(outcome.why, HasSubstr("two runs differ"));
}

TEST(Verifier, SeesOneWrongRowStatistic) {
    EXPECT_THAT(with([](const Probe& op) { op.sums.as<float>()[2] = 1e9f; }).why,
                HasSubstr("sums[2]: got 1e+09"));
}

TEST(Verifier, SharedMemoryIsComparedOnce) {
    EXPECT_TRUE(with([](const Probe&) {}, "probe x=bf16[3,8] out=@x").passed);
    EXPECT_FALSE(
        with([](const Probe& op) { op.out.as<std::uint16_t>()[0] ^= 2; }, "probe x=bf16[3,8] out=@x").passed);
}

TEST(Verifier, SpecialValuesPropagate) {
    Random random(11);
    for (int i = 0; i < 50; ++i) {
        const auto c = generate(*find_op("probe"), device_info(kCpu), random, {});
        ASSERT_TRUE(c);
        const Outcome outcome = verify(*c, kCpu, 1, Values::special);
        EXPECT_TRUE(outcome.passed) << outcome.why << "\n  " << c->line();
    }
}

// The probe's reference, with each element of one kind stored as something else.
template <class Is>
Outcome with_special(Is, float stored) {
    static float put;
    static int changed;
    put = stored;
    changed = 0;
    Outcome outcome = with(
        [](const Probe& op) {
            auto* out = op.out.as<float>();
            for (std::int64_t i = 0; i < op.out.numel(); ++i) {
                if (!Is{}(out[i])) continue;
                out[i] = put;
                ++changed;
            }
        },
        "probe x=fp32[64,512] out=fp32[64,512]", Values::special);
    EXPECT_GT(changed, 0) << "no such element was drawn";
    return outcome;
}

TEST(Verifier, TellsWhatIsNoNumberFromWhatIs) {
    const auto nan = [](float v) { return std::isnan(v); };
    const auto infinite = [](float v) { return std::isinf(v); };
    const auto largest = [](float v) { return v == INFINITY; };
    EXPECT_TRUE(with_special(nan, NAN).passed);
    EXPECT_TRUE(with_special(largest, INFINITY).passed);
    EXPECT_THAT(with_special(nan, 0.0f).why, HasSubstr("got 0, expected nan"));
    EXPECT_THAT(with_special(nan, INFINITY).why, HasSubstr("got inf, expected nan"));
    EXPECT_THAT(with_special(infinite, NAN).why, HasSubstr("got nan, expected"));
    EXPECT_THAT(with_special(largest, -INFINITY).why, HasSubstr("got -inf, expected inf"));
    EXPECT_THAT(with_special(largest, 3e38f).why, HasSubstr("expected inf"));
}

TEST(Verifier, HoldsBothRunsToTheReference) {
    static int run, wrong;
    for (wrong = 0; wrong < 2; ++wrong) {
        run = 0;
        const Outcome outcome = with([](const Probe& op) {
            if (run++ == wrong) op.out.as<float>()[1] = 1e9f;
        });
        EXPECT_THAT(outcome.why, HasSubstr("out[0,1]: got 1e+09")) << "run " << wrong;
    }
}

TEST(Verifier, ReportsABreakdownAsAnOutcome) {
    OpEntry entry = *find_op("probe");
    entry.implementations[0] = {{"broken",
                                 +[](const Probe&, const DeviceInfo&) -> const char* { return nullptr; },
                                 +[](const Probe&, const DeviceInfo&) { return std::string(); },
                                 +[](const Probe&, Context&) {
                                     throw Error(ErrorCode::emulator_fault, "", "", "a barrier diverged");
                                 }}};
    Case c(entry);
    c.tensors = Case::parse("probe x=bf16[3,8]").tensors;
    const Trial trial{c, 3, Values::wide, 0};
    const Outcome outcome = attempt(trial, kCpu);
    EXPECT_FALSE(outcome.passed);
    EXPECT_THAT(outcome.why, HasSubstr("emulator fault: probe: broken"));
    EXPECT_EQ(command(trial, kCpu),
              "weft verify 'probe x=bf16[3,8] out=bf16[3,8]' --device cpu --seed 3 --values wide");
    EXPECT_EQ(command({c, 3, Values::wide, 9, "broken"}, kEmulator),
              "weft verify 'probe x=bf16[3,8] out=bf16[3,8]' --device emulator --seed 3 --values wide "
              "--implementation broken --order 9");
}

#if WEFT_HAS_EMULATOR
TEST(Trials, RunInTheOrderThatTheyName) {
    static std::vector<std::uint64_t> orders;
    OpEntry entry = *find_op("probe");
    entry.implementations[0] = {{"ordered",
                                 +[](const Probe&, const DeviceInfo&) -> const char* { return nullptr; },
                                 +[](const Probe&, const DeviceInfo&) { return std::string(); },
                                 +[](const Probe& op, Context&) {
                                     orders.push_back(emulator::order());
                                     Oracle plain;
                                     reference(op, plain);
                                 }}};
    Case c(entry);
    c.tensors = Case::parse("probe x=bf16[3,8]").tensors;
    const std::uint64_t before = emulator::order();
    EXPECT_TRUE(attempt({c, 3, Values::usual, 9}, kCpu).passed);
    EXPECT_THAT(orders, testing::ElementsAre(9, 9));
    EXPECT_EQ(emulator::order(), before);
}
#endif

TEST(Verifier, InputsDoNotDependOnTheDeviceOrOnOtherFields) {
    const Case c = Case::parse("probe x=bf16[3,8] weight=fp32[8]"),
               without = Case::parse("probe x=bf16[3,8]");
    const Instance a(c, kCpu, 5, Values::usual), b(c, kEmulator, 5, Values::usual),
        other(without, kCpu, 5, Values::usual);
    const auto bytes = [](const Instance& instance) {
        std::vector<std::byte> now;
        instance.read(0, now);
        return now;
    };
    EXPECT_EQ(bytes(a), bytes(b));
    EXPECT_EQ(bytes(a), bytes(other));
    EXPECT_NE(bytes(a), bytes(Instance(c, kCpu, 6, Values::usual)));
    EXPECT_NE(bytes(a), bytes(Instance(c, kCpu, 5, Values::tiny)));
}

TEST(Fuzzer, CountsWhatRanAndIsRepeatable) {
    FuzzOptions options;
    options.cases = 60;
    options.seed = 4;
    const FuzzReport a = fuzz(*find_op("probe"), options), b = fuzz(*find_op("probe"), options);
    EXPECT_EQ(a.cases, 60);
    EXPECT_TRUE(a.failures.empty()) << a.failures.front().why;
    EXPECT_EQ(a.worst_command, b.worst_command);
    EXPECT_EQ(a.implementations, b.implementations);
    EXPECT_GE(a.implementations.size(), 2u);  // also what dispatch would not choose
}

TEST(Sampling, TakesAPartOfLongCallsOnly) {
    Oracle oracle(true);
    EXPECT_TRUE(oracle.wants(17));
    oracle.sample(100);
    int wanted = 0;
    for (std::int64_t i = 0; i < 100000; ++i) wanted += oracle.wants(i) ? 1 : 0;
    EXPECT_GT(wanted, 700);
    EXPECT_LT(wanted, 1300);
}

TEST(Parts, FollowFromTheDeclaredAxes) {
    const auto names = [](const char* line) {
        std::vector<std::string> found;
        for (const Cut& cut : cuts_of(Case::parse(line)))
            found.push_back(cut.name + "=" + std::to_string(cut.size));
        return found;
    };
    using testing::ElementsAre;
    EXPECT_THAT(names("probe x=bf16[3,5,8]"), ElementsAre("...=3", "...=5"));
    EXPECT_THAT(names("probe x=bf16[1,5,8]"), ElementsAre("...=5"));
    EXPECT_THAT(names("gemm a=bf16[4,16] b=bf16[8,16]"), ElementsAre("...=4", "n=8"));
    EXPECT_THAT(names("attention q=bf16[2,3,8,16] k=bf16[2,3,4,16] v=bf16[2,3,4,16]"),
                ElementsAre("batch=2", "kv_heads=4"));
    EXPECT_THAT(names("quantize x=bf16[4,16] token_scale=fp32[4]"), ElementsAre("...=4"));
    EXPECT_TRUE(names("quantize x=bf16[4,16] tensor_scale=fp32[1]").empty()) << "one scale of all rows";
}

TEST(Parts, AreCallsOfTheirOwn) {
    const Case c = Case::parse("attention q=bf16[2,3,8,16] k=bf16[2,5,4,16] v=bf16[2,5,4,16] lse=fp32");
    const Case part = part_case(c, cuts_of(c), {{1, 2}, {1, 3}});
    EXPECT_EQ(
        part.line(),
        "attention q=bf16[1,3,4,16] k=bf16[1,5,2,16] v=bf16[1,5,2,16] out=bf16[1,3,4,16] lse=fp32[1,4,3]");
    EXPECT_NO_THROW(part.check());
}

// Every op whose parts are said to be calls: a sampled reference agrees with the implementation on all of
// them.
TEST(Parts, AgreeWithTheWholeCall) {
    for (const char* line :
         {"probe x=bf16[6,5,8]+3 weight=fp32[8] y=bf16[6,5,8]{80,16,2} sums=fp32",
          "probe x=bf16[40,8] out=@x",
          "rms_norm x=bf16[2,20,64] weight=bf16[64] residual=bf16[2,20,64] residual_out=bf16[2,20,64] "
          "out=fp8_e4m3 token_scale=fp32",
          "layer_norm x=bf16[30,64] bias=bf16[64]", "softmax x=fp16[30,64]",
          "quantize x=bf16[30,64] token_scale=fp32",
          "dequantize x=fp8_e4m3[30,64] out=bf16 token_scale=fp32[30]",
          "embedding ids=int32[30] table=bf16[50,64]", "gated_activation out=bf16[30,32] x=bf16[30,64]",
          "residual_add x=bf16[30,64] residual=bf16[30,64]", "rope x=bf16[3,5,6,16] start=7",
          "patch_im2col image=uint8[6,4,4,3] out=bf16[24,12] patch=2",
          "gemm a=bf16[30,16] b=bf16[50,16] bias=bf16[50] residual=bf16[30,50]",
          "gemm a=fp8_e4m3[30,256] b=fp8_e4m3[300,256] a_group_scale=fp32[30,2] b_block_scale=fp32[3,2]",
          "gemm a=bf16[30,64] b=fp4_e2m1[300,64] b_swizzled_scale=fp8_e4m3[384,4] b_scale=fp32[1]",
          "grouped_gemm a=fp8_e4m3[3,30,256] b=fp8_e4m3[3,300,256] counts=int32[3] "
          "a_group_scale=fp32[3,30,2] b_block_scale=fp32[3,3,2] out=bf16[3,30,300]",
          "grouped_gemm a=bf16[30,16] b=bf16[3,50,16] group_ends=int32[3] bias=bf16[3,50] out=bf16[30,50]",
          "gemm a=bf16[2,15,16] b=bf16[50,16] gate=bf16[2,1,50] residual=bf16[2,15,1] out=bf16[2,15,50]",
          "attention q=bf16[3,5,8,16] k=bf16[3,9,4,16] v=bf16[3,9,4,16] causal=true lse=fp32"}) {
        const Case c = Case::parse(line);
        const Instance operands(c, kCpu, 3, Values::usual), result(c, kCpu, 3, Values::usual);
        Context context(kCpu);
        result.run(context);
        EXPECT_EQ(Reference(operands).sampled(), "");
        Reference sampled(operands, {.threads = 2, .operations = 1000, .elements = 1e6});
        EXPECT_THAT(sampled.sampled(), HasSubstr("parts (")) << line;
        const Outcome outcome = sampled.compare(result);
        EXPECT_TRUE(outcome.passed) << line << "\n" << outcome.why;
        EXPECT_TRUE(Reference(operands).compare(result).passed) << line;
    }
}

// Longer than what one thread takes at a time, and written in two places.
TEST(Written, TellsChangesBetweenFromChangesWithin) {
    const std::vector<std::byte> before(std::size_t{40} << 20);
    const std::vector<Span> spans = {{100, 200}, {30 << 20, 31 << 20}};
    const auto changed_at = [&](std::int64_t at) {
        std::vector<std::byte> now = before;
        now[static_cast<std::size_t>(at)] = std::byte{1};
        return examine(now, before, spans, 2);
    };
    const Examined same = examine(before, before, spans, 2);
    EXPECT_EQ(same.changed, -1);
    for (const std::int64_t within : {100, 199, 30 << 20, (31 << 20) - 1}) {
        EXPECT_EQ(changed_at(within).changed, -1);
        EXPECT_NE(changed_at(within).hash, same.hash);
    }
    for (const std::int64_t between : {0, 99, 200, (30 << 20) - 1, 31 << 20, (40 << 20) - 1}) {
        EXPECT_EQ(changed_at(between).changed, between);
        EXPECT_EQ(changed_at(between).hash, same.hash);
    }
}

TEST(Parts, FindAWrongElementAndNameItsPlace) {
    const Case c = Case::parse("probe x=fp32[100,8]");
    const Instance operands(c, kCpu, 3, Values::usual), result(c, kCpu, 3, Values::usual);
    Context context(kCpu);
    result.run(context);
    Reference sampled(operands, {.threads = 2, .operations = 1000, .elements = 1e6});
    const Tensor out = static_cast<const Probe*>(result.call())->out;
    store_element(out.dtype, out.data, 99 * 8 + 7, 1e6);  // the last row is always looked at
    EXPECT_THAT(sampled.compare(result).why, HasSubstr("out[99,7]: got 1000000"));
}

}  // namespace
}  // namespace weft::test
