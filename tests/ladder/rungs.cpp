// Every rung, on cases of its op: those of its topic's forms with odd sizes, one element and none, and those that are
// drawn from the op's contract. A rung that is wrong on purpose must be found wrong by the case that it names.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>

#include "core/sanitizer.h"
#include "tests/ladder/forms.h"
#include "verify/fuzz.h"
#include "verify/guided.h"

namespace weft {
namespace {

using ladder::Rung;

// Sizes for each form, and the most operations of a case: the emulator is slow, and slower with a sanitizer. A race
// between two threads shows in any case that reaches the code, however often: the thread sanitizer gets two cases of
// each rung, those whose loops go round most often for an output, since more outputs are only more blocks.
constexpr bool kFew = kSeesRaces;
constexpr int kDrawn = kSeesRaces ? 2 : kSeesAddresses ? 4 : 10;
constexpr double kMostFlops = kSanitized ? 3e5 : 4e6;

// WEFT_LADDER_DEVICE=cuda: on a GPU, as `scripts/gpu OUT ladder` has it.
Device device() {
    const char* word = std::getenv("WEFT_LADDER_DEVICE");
    return word != nullptr && std::string_view(word) == "cuda" ? kCuda : kEmulator;
}

// Sizes that are drawn for each form: WEFT_LADDER_CASES=N for more of them, which only a GPU has time for.
int drawn() {
    const char* word = std::getenv("WEFT_LADDER_CASES");
    return word != nullptr ? std::atoi(word) : kDrawn;
}

bool is_wrong(const Rung& rung) { return !rung.part("Wrong").empty(); }

class EveryRung : public testing::TestWithParam<const Rung*> {
   protected:
    const Rung& rung() const { return *GetParam(); }
    bool takes(const Case& c) const { return !accepting(c, device()).empty(); }

    Trial parsed(const std::string& line) const {
        Trial trial = parse_corpus_line(line);
        EXPECT_EQ(trial.c.contract().name(), rung().entry.contract().name());
        trial.c = ladder::with_entry(rung().entry, trial.c);
        trial.implementation = rung().name;
        return trial;
    }

    double flops_of(const Trial& trial) const {
        double flops = 0;
        trial.c.with_call(device(), [&](const void* call) { flops = trial.c.contract().work(call).flops; });
        return flops;
    }

    // Operations for an output element; of equals more elements are deeper, while they are not many.
    std::pair<double, double> depth_of(const Trial& trial) const {
        constexpr double kMany = 2000;
        double outputs = 0;
        for (std::size_t i = 0; i < trial.c.tensors.size(); ++i) {
            const bool written = trial.c.contract().fields()[i].role != Role::in;
            if (written && trial.c.tensors[i].present)
                outputs += static_cast<double>(trial.c.tensors[i].span());
        }
        return {flops_of(trial) / std::max(outputs, 1.0), outputs > kMany ? 0 : outputs};
    }

    // Those of a form's cases that the rung takes: one element, none, then any.
    std::vector<Trial> cases_of(const std::string& form, Random& random) const {
        std::vector<Trial> taken;
        for (int i = -2; i < drawn(); ++i) {
            Trial trial = parsed(test::with_sizes(form, i == -2 ? 1 : i == -1 ? 0 : -1, random));
            trial.seed = random.bits() % 1'000'000;
            trial.values = kAllValues[static_cast<std::size_t>(i + 2) % std::size(kAllValues)];
            trial.order = i % 2 == 1 ? 1 + random.bits() % 1'000'000 : 0;
            if (flops_of(trial) <= kMostFlops && takes(trial.c)) taken.push_back(std::move(trial));
        }
        return taken;
    }
};
class RightRung : public EveryRung {};
class WrongRung : public EveryRung {};

TEST_P(EveryRung, SaysWhatItTeaches) {
    EXPECT_FALSE(rung().title().empty());
    for (const char* part : {"Idea", "Change", "Prediction"}) EXPECT_NE(rung().part(part), "") << part;
    EXPECT_EQ(rung().part("Wrong").empty(), rung().part("Right").empty());
}

TEST_P(RightRung, IsRightForAnySize) {
    Random random(41);
    std::vector<Trial> trials;
    for (const std::string& form : test::forms_of(rung())) {
        for (Trial& trial : cases_of(form, random)) trials.push_back(std::move(trial));
    }
    EXPECT_GE(static_cast<int>(trials.size()), kDrawn)
        << "the topic's forms.txt has too few cases that it takes";
    if (kFew && trials.size() > 2) {
        std::stable_sort(trials.begin(), trials.end(),
                         [&](const Trial& a, const Trial& b) { return depth_of(a) > depth_of(b); });
        trials.erase(trials.begin() + 2, trials.end());
    }
    for (const Trial& trial : trials) {
        const Outcome outcome = attempt_generated(trial, device());
        ASSERT_TRUE(outcome.passed) << outcome.why << "\nagain: " << command(trial, device());
    }
}

TEST_P(RightRung, IsRightForWhatTheContractAllows) {
    if (kSanitized) GTEST_SKIP() << "it draws much longer than it runs, and its sizes are others alone";
    FuzzOptions options;
    options.device = device();
    options.cases = 4;
    options.draws = 200;  // a rung that takes none of so many has its forms
    options.implementation = rung().name;
    options.limits = {10'000, 1'000'000};
    const FuzzReport report = fuzz(rung().entry, options);
    for (const auto& failure : report.failures)
        ADD_FAILURE() << failure.why << "\nagain: " << command(failure.trial, device());
}

TEST_P(WrongRung, IsFoundWrongWhereItSaysSo) {
    const Outcome right = attempt_generated(parsed(rung().part("Right")), device());
    EXPECT_TRUE(right.passed) << right.why;
    const Outcome wrong = attempt_generated(parsed(rung().part("Wrong")), device());
    EXPECT_FALSE(wrong.passed);
    EXPECT_THAT(wrong.why, testing::Not(testing::HasSubstr("no implementation"))) << "it declines the case";
}

std::vector<const Rung*> which_are(bool wrong) {
    std::vector<const Rung*> found = ladder::rungs();
    std::erase_if(found, [wrong](const Rung* rung) { return is_wrong(*rung) != wrong; });
    return found;
}

std::string label(const testing::TestParamInfo<const Rung*>& info) {
    std::string name = info.param->name.substr(info.param->name.find('/') + 1);
    std::replace(name.begin(), name.end(), '/', '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(Ladder, EveryRung, testing::ValuesIn(ladder::rungs()), label);
INSTANTIATE_TEST_SUITE_P(Ladder, RightRung, testing::ValuesIn(which_are(false)), label);
INSTANTIATE_TEST_SUITE_P(Ladder, WrongRung, testing::ValuesIn(which_are(true)), label);

// The result's bits where blocks run in this order.
std::size_t bits_of(const std::string& rung, const Case& c, std::uint64_t order) {
    const Rung* found = ladder::find(rung);
    EXPECT_NE(found, nullptr) << rung;
    Trial trial{ladder::with_entry(found->entry, c)};
    trial.implementation = rung;
    trial.order = order;
    const Outcome outcome = attempt_generated(trial, kEmulator);
    EXPECT_TRUE(outcome.passed) << outcome.why;
    return outcome.bits;
}

TEST(Sum, ByAtomicsHasOtherBitsInAnotherOrder) {
    const std::string atomics = "ladder/reduce/01_atomics_f32", ordered = "ladder/reduce/02_f32";
    const Case c = Case::parse("reduce x=fp32[1,4096] out=fp32[1]");
    std::set<std::size_t> by_atomics, in_order;
    for (std::uint64_t order = 1; order <= 8; ++order) {
        by_atomics.insert(bits_of(atomics, c, order));
        in_order.insert(bits_of(ordered, c, order));
    }
    EXPECT_GT(by_atomics.size(), 1U);
    EXPECT_EQ(in_order.size(), 1U);
    // Only a GPU chooses the order by itself, and only of a rung that says so is that taken.
    EXPECT_FALSE(repeats_bits(c, kCuda, atomics));
    EXPECT_TRUE(repeats_bits(c, kEmulator, atomics));
    EXPECT_TRUE(repeats_bits(c, kCuda, ordered));
}

// Three tiles of six steps: shares of 4 and 5, so that blocks begin and end within tiles. One of 18: all share it.
TEST(StreamK, HasTheSameBitsInEveryOrder) {
    for (const char* line : {"gemm a=fp16[20,328] b=fp16[520,328]{1,520} out=fp16[20,520]",
                             "gemm a=fp16[20,1096] b=fp16[8,1096]{1,8} out=fp16[20,8]"}) {
        const Case c = Case::parse(line);
        std::set<std::size_t> bits;
        for (const std::uint64_t order : {0, 1, 2})
            bits.insert(bits_of("ladder/hgemm/23_wgmma_stream_k_f16", c, order));
        EXPECT_EQ(bits.size(), 1U) << line;
    }
}

}  // namespace
}  // namespace weft
