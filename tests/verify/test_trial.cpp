// Trials: their names, the commands and corpus lines that repeat them, and what is said of one in which the process
// dies.
#include "verify/trial.h"

#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "verify/guided.h"
#include "weft/op.h"

namespace weft::test {
namespace {

using testing::HasSubstr;

// Its one implementation does what a test says.
struct Tried {
    static constexpr std::string_view kName = "tried";
    Tensor x{}, out{};
    static inline void (*does)() = nullptr;

    static const Contract& contract() {
        using Op = Tried;
        static const Contract c = Describe<Op>(std::string(kName), "out = 0")
                                      .in("x", &Op::x, "... dim", kFloat, "the rows")
                                      .out("out", &Op::out, "... dim", kFloat, "the result")
                                      .require(+[](const Op& op) -> std::optional<Violation> {
                                          if (op.x.dim(-1) != 13) return std::nullopt;
                                          return Violation{"x", "expected no 13"};
                                      })
                                      .tolerance("none")
                                      .source("nothing");
        return c;
    }
};
void reference(const Tried& op, Oracle& oracle) {
    for (std::int64_t i = 0; i < op.out.numel(); ++i) oracle.store(op.out, i, 0);
}
const RegisterReference<Tried> kReference{reference};
const RegisterImplementations<Tried> kList{DeviceType::cpu,
                                           {{"doing",
                                             +[](const Tried& op, const DeviceInfo&) -> const char* {
                                                 return op.x.dim(-1) == 7 ? "no sevens" : nullptr;
                                             },
                                             +[](const Tried&, const DeviceInfo&) { return std::string(); },
                                             +[](const Tried& op, Context&) {
                                                 if (Tried::does) Tried::does();
                                                 Oracle plain;
                                                 reference(op, plain);
                                             }}}};

Trial trial(const std::string& line = "tried x=bf16[3,8]") { return {Case::parse(line), 5, Values::tiny}; }

TEST(Trials, HaveValuesOfSevenNames) {
    std::vector<std::string> names;
    for (const Values values : kAllValues) {
        names.emplace_back(name(values));
        EXPECT_EQ(parse_values(name(values)), values);
    }
    EXPECT_THAT(names,
                testing::ElementsAre("usual", "wide", "tiny", "constant", "special", "rising", "ties"));
    EXPECT_EQ(parse_values("other"), std::nullopt);
    EXPECT_EQ(parse_values(""), std::nullopt);
}

TEST(Trials, AreRepeatedByTheirCommandAndTheirLine) {
    Trial t = trial();
    EXPECT_EQ(command(t, kCpu),
              "weft verify 'tried x=bf16[3,8] out=bf16[3,8]' --device cpu --seed 5 --values tiny");
    EXPECT_EQ(corpus_line(t), "tried x=bf16[3,8] out=bf16[3,8] --seed 5 --values tiny");
    t.implementation = "doing";
    t.order = 1;
    EXPECT_EQ(command(t, kEmulator),
              "weft verify 'tried x=bf16[3,8] out=bf16[3,8]' --device emulator --seed 5 --values tiny "
              "--implementation doing --order 1");
    const std::string line = corpus_line(t);
    EXPECT_EQ(line,
              "tried x=bf16[3,8] out=bf16[3,8] --seed 5 --values tiny --implementation doing --order 1");
    const Trial again = parse_corpus_line(line);
    EXPECT_EQ(again.c, t.c);
    EXPECT_EQ(again.seed, 5u);
    EXPECT_EQ(again.values, Values::tiny);
    EXPECT_EQ(again.implementation, "doing");
    EXPECT_EQ(again.order, 1u);
    EXPECT_EQ(parse_corpus_line("tried x=bf16[3,8]").c, t.c) << "the case alone, its output inferred";
}

TEST(Trials, RefuseLinesThatAreNone) {
    const auto message = [](const std::string& line) {
        try {
            parse_corpus_line(line);
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
            return std::string(e.what());
        }
        return std::string("accepted");
    };
    EXPECT_THAT(message("tried x=bf16[3,8] --sead 5"),
                HasSubstr("'--sead 5' is no part of a trial: tried x="));
    EXPECT_THAT(message("tried x=bf16[3,8] --values odd"), HasSubstr("'--values odd' is no part of a trial"));
    EXPECT_THAT(message("tried x=bf16[3,8] --sorts tiny"), HasSubstr("'--sorts tiny' is no part of a trial"));
    EXPECT_THAT(message("tried x=bf17[3,8] --seed 5"), HasSubstr("expected a dtype"));
}

TEST(Trials, OfACorpusAreItsLinesButThoseForPeople) {
    const auto path = std::filesystem::path(testing::TempDir()) / "weft_corpus.txt";
    std::ofstream(path)
        << "# for people\n\ntried x=bf16[3,8] --seed 9\n# more\ntried x=fp32[1] --values wide\n";
    const std::vector<Trial> trials = read_corpus(path.string());
    ASSERT_EQ(trials.size(), 2u);
    EXPECT_EQ(trials[0].seed, 9u);
    EXPECT_EQ(trials[1].values, Values::wide);
    EXPECT_TRUE(read_corpus("/nonexistent/corpus.txt").empty());
    std::filesystem::remove(path);
}

TEST(Trials, ThatBreakDownHaveFailedAndBadCallsThrow) {
    Tried::does = [] { throw Error(ErrorCode::cuda, "", "", "an illegal address"); };
    const Outcome outcome = attempt(trial(), kCpu);
    EXPECT_FALSE(outcome.passed);
    EXPECT_THAT(outcome.why, testing::StartsWith("CUDA error: "));
    EXPECT_THAT(outcome.why, HasSubstr("an illegal address"));
    Tried::does = [] { throw Error(ErrorCode::unsupported, "", "", "not here"); };
    EXPECT_THROW(attempt(trial(), kCpu), Error);
    Tried::does = nullptr;
    EXPECT_TRUE(attempt(trial(), kCpu).passed);
    EXPECT_EQ(attempt(trial(), kCpu).implementation, "doing");
    Trial bad = trial();
    bad.c.tensors[0].shape = bad.c.tensors[1].shape = {13};
    EXPECT_THROW(attempt(bad, kCpu), Error);
    Trial none = trial("tried x=bf16[7]");
    EXPECT_THAT(attempt(none, kCpu).implementation, testing::StartsWith("reference "));
    none.implementation = "doing";
    EXPECT_THROW(attempt(none, kCpu), Error) << "the one that is named declines";
    none.implementation = "reference";
    EXPECT_TRUE(attempt(none, kCpu).passed);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
int raised = 0;

// The last thing that a process does.
void die_in(const Trial& t, int signal) {
    announce_deaths();
    raised = signal;
    Tried::does = [] { std::raise(raised); };
    attempt(t, kCpu);
}

TEST(Trials, NameThemselvesWhereTheProcessDies) {
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
        EXPECT_EXIT(
            die_in(trial(), signal), testing::KilledBySignal(signal),
            "The process died in this trial:\n  weft verify 'tried x=bf16\\[3,8\\] out=bf16\\[3,8\\]' "
            "--device cpu --seed 5 --values tiny");
    }
    // What a process does that dies is not counted: this one does the same, and lives.
    Tried::does = nullptr;
    announce_deaths();
    EXPECT_TRUE(attempt(trial(), kCpu).passed);
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
        EXPECT_NE(std::signal(signal, SIG_DFL), SIG_DFL) << "announced";
}

TEST(Trials, SayNothingOfTheTrialsBefore) {
    const auto after_another = [] {
        Trial longer = trial();
        longer.implementation = "doing";
        attempt(longer, kCpu);
        die_in(trial(), SIGABRT);
    };
    EXPECT_EXIT(after_another(), testing::KilledBySignal(SIGABRT), testing::EndsWith("--values tiny\n"));
    const auto after_all = [] {
        announce_deaths();
        attempt(trial(), kCpu);
        std::raise(SIGABRT);
    };
    EXPECT_EXIT(after_all(), testing::KilledBySignal(SIGABRT), testing::IsEmpty());
    EXPECT_TRUE(attempt(trial(), kCpu).passed) << "as the processes do that die";
}

TEST(Trials, CutCommandsThatAreTooLongToBeKept) {
    static OpEntry entry = *find_op("tried");
    entry.implementations[0][0].name = std::string(5000, 'n');
    Trial t{Case(entry), 5, Values::tiny, 0, entry.implementations[0][0].name};
    t.c.tensors = trial().c.tensors;
    EXPECT_EXIT(die_in(t, SIGABRT), testing::KilledBySignal(SIGABRT), "--implementation nnnnnnnnnn");
    EXPECT_TRUE(attempt(t, kCpu).passed);
}
#endif

}  // namespace
}  // namespace weft::test
