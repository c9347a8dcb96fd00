// The corpus of each op: few cases that reach every branch of its kernels that any generated case reached
// (scripts/coverage OP --guided keeps them).
#include <gtest/gtest.h>

#include <filesystem>

#include "verify/guided.h"

namespace weft {
namespace {

std::string path_of(const OpEntry& op) {
    return WEFT_SOURCE_DIR "/tests/ops/corpus/" + op.contract().name() + ".txt";
}

#if WEFT_HAS_EMULATOR
class Corpus : public testing::TestWithParam<const OpEntry*> {};

TEST_P(Corpus, AgreesWithTheReference) {
    const std::vector<Trial> trials = read_corpus(path_of(*GetParam()));
    EXPECT_FALSE(trials.empty());
    for (const Trial& trial : trials) {
        const Outcome outcome = attempt_generated(trial, kEmulator);
        EXPECT_TRUE(outcome.passed) << outcome.why << "\nagain: " << command(trial, kEmulator);
    }
}

std::vector<const OpEntry*> ops_with_a_corpus() {
    std::vector<const OpEntry*> found;
    for (const OpEntry* op : all_ops()) {
        if (std::filesystem::exists(path_of(*op))) found.push_back(op);
    }
    return found;
}

INSTANTIATE_TEST_SUITE_P(Ops, Corpus, testing::ValuesIn(ops_with_a_corpus()),
                         [](const auto& info) { return info.param->contract().name(); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Corpus);
#endif

class EveryLine : public testing::TestWithParam<const OpEntry*> {};

TEST_P(EveryLine, IsReadAsItWasWritten) {
    FuzzOptions options;
    TrialSource source(*GetParam(), options);
    for (int i = 0; i < 20; ++i) {
        std::optional<Trial> trial = source.next();
        ASSERT_TRUE(trial.has_value());
        trial->order = static_cast<std::uint64_t>(i % 3);
        trial->c.infer();
        const Trial read = parse_corpus_line(corpus_line(*trial));
        EXPECT_EQ(read.c, trial->c);
        EXPECT_EQ(corpus_line(read), corpus_line(*trial));
    }
    EXPECT_THROW(parse_corpus_line(corpus_line(*source.next()) + " --colour red"), Error);
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryLine, testing::ValuesIn(all_ops()),
                         [](const auto& info) { return info.param->contract().name(); });

}  // namespace
}  // namespace weft
