// Options of the tool's commands: each changes what its name says, on the op of test_tool.cpp whose implementation is wrong
// for rows longer than 8.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/cli/tool.h"
#include "verify/fuzz.h"
#include "weft/case.h"

namespace weft {
namespace {

using test::json;
using test::Result;
using test::weft;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

// A workload of the tests, gone with them.
struct Workload {
    explicit Workload(const std::string& rows) { std::ofstream(path) << "row,model,case\n" << rows; }
    ~Workload() { std::filesystem::remove(path); }
    const std::string path = testing::TempDir() + "/weft_options_" + std::to_string(getpid()) + ".csv";
};

TEST(VerifyOptions, AreThoseOfTheCommandThatRunsAFailureAgain) {
    const auto report = json({"verify", "planted", "--device", "cpu", "--cases", "40", "--seed", "5",
                              "--order", "9", "--values", "wide", "--implementation", "wrong", "--json"});
    ASSERT_GT(report["failed"], 0);
    for (const auto& result : report["results"]) {
        EXPECT_EQ(result.value("order", 0), 9);
        if (result["passed"]) continue;
        EXPECT_THAT(result["command"].get<std::string>(),
                    EndsWith(" --device cpu --seed 5 --values wide --implementation wrong --order 9"));
    }
}

TEST(VerifyOptions, NothingThatRanIsNothingThatPassed) {
    for (const char* command : {"verify", "fuzz"}) {
        const test::Result r =
            weft({command, "planted", "--device", "cpu", "--cases", "5", "--implementation", "of no name"});
        EXPECT_EQ(r.code, cli::kUnsupported) << command << r.out << r.error;
    }
}

// The emulator is that much slower: what the host compares at once is left out there, unless it is asked for.
TEST(VerifyOptions, RowsAreAsLargeAsTheDeviceCanAfford) {
    const Workload rows("large,M,\"planted x=fp32[60000,4]\"\n");
    const auto report = [&](std::vector<std::string> more) {
        more.insert(more.begin(), {"verify", "--workload", rows.path, "--json", "--device"});
        return json(more);
    };
    EXPECT_EQ(report({"cpu"})["results"].size(), 1u);
    EXPECT_EQ(report({"cpu"})["failed"], 0);
    if (devices_here().size() == 1) GTEST_SKIP() << "no emulator";
    EXPECT_EQ(report({"emulator"})["skipped"], 1);
    EXPECT_THAT(weft({"verify", "--workload", rows.path, "--device", "emulator", "--all-rows"}).error,
                HasSubstr("it is only for other devices"))
        << "it is asked to run";
}

// But for the large cases, one in twelve.
TEST(FuzzOptions, BoundElementsAndOperations) {
    constexpr int kCases = 300;
    const auto beyond = [](const std::string& option, double most, auto size_of) {
        const auto report =
            json({"fuzz", "planted", "--device", "cpu", "--cases", std::to_string(kCases), "--failures",
                  std::to_string(kCases), "--seed", "3", "--json", option, fmt::format("{}", most)});
        std::ptrdiff_t within = 0, larger = 0;
        for (const auto& failure : report[0]["failures"])
            ++(size_of(Case::parse(failure["case"].get<std::string>())) > most ? larger : within);
        EXPECT_GT(within, 20) << option;
        return larger;
    };
    const auto elements = [](const Case& c) {
        double sum = 0;
        for (const TensorSpec& t : c.tensors) sum += static_cast<double>(t.span());
        return sum;
    };
    const auto flops = [](const Case& c) {
        double sum = 0;
        c.with_call(kCpu, [&](const void* call) { sum = c.contract().work(call).flops; });
        return sum;
    };
    EXPECT_LE(beyond("--elements", 80, elements), kCases / 12);
    EXPECT_LE(beyond("--flops", 30, flops), kCases / 12);
    EXPECT_GT(beyond("--flops", 50, elements), kCases / 12) << "they bound no elements";
}

TEST(FuzzOptions, ChooseSeedAndValues) {
    const auto commands = [](const std::string& seed) {
        const auto report = json({"fuzz", "planted", "--device", "cpu", "--cases", "40", "--failures", "40",
                                  "--values", "wide", "--json", "--seed", seed});
        std::vector<std::string> found;
        for (const auto& failure : report[0]["failures"]) found.push_back(failure["command"]);
        return found;
    };
    const auto once = commands("3");
    EXPECT_THAT(once, testing::Each(HasSubstr("--values wide")));
    EXPECT_GT(once.size(), 3u);
    EXPECT_EQ(commands("3"), once);
    EXPECT_NE(commands("4"), once);
}

TEST(ExplainOptions, JsonHasReasonsAndConfigurations) {
    const auto list =
        json({"explain", "planted x=fp32[4,4]", "--device", "cpu", "--json"})["implementations"];
    EXPECT_EQ(list[0]["config"], "threads=1");
    EXPECT_EQ(list[0]["declined"], "");
    EXPECT_TRUE(list[0]["chosen"]);
    EXPECT_FALSE(list[1]["chosen"]);
    const auto declines =
        json({"explain", "planted x=fp32[4,4]", "--device", "h100", "--json"})["implementations"][0];
    EXPECT_EQ(declines["config"], "");
    EXPECT_FALSE(declines["chosen"]);
}

std::vector<std::string> bench(std::vector<std::string> more) {
    std::vector<std::string> words = {"bench", "--device", "cpu", "--against", "none", "--rounds", "3"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

// Rows say how they were made.
TEST(BenchOptions, AreInTheCommandOfTheRows) {
    const Workload rows("first,M,\"planted x=fp32[2,4]\"\nsecond,M,\"planted x=fp32[3,4]\"\n");
    const auto command = [](const std::vector<std::string>& more) {
        auto words = bench(more);
        words.emplace_back("--json");
        return json(words)["env"]["command"].get<std::string>();
    };
    EXPECT_EQ(command({"planted x=fp32[2,4]", "--implementation", "reference", "--seed", "4"}),
              "weft bench 'planted x=fp32[2,4]' --implementation reference --seed 4");
    EXPECT_EQ(command({"planted x=fp32[2,4]", "--untuned", "--seed", "4"}),
              "weft bench 'planted x=fp32[2,4]' --untuned --seed 4");
    EXPECT_EQ(command({"--workload", rows.path, "--only", "second", "--seed", "4"}),
              "weft bench --workload " + rows.path + " --only second --seed 4");
    EXPECT_EQ(command({"--sample", "residual_add,copy", "--cases", "2", "--budget-s", "1e-9", "--seed", "4"}),
              "weft bench --sample residual_add,copy --cases 2 --seed 4");
}

TEST(BenchOptions, ChooseRowsAndRounds) {
    const Workload rows("first,M,\"planted x=fp32[2,4]\"\nsecond,M,\"planted x=fp32[3,4]\"\n");
    const auto measured = [&](std::vector<std::string> more) {
        more.insert(more.begin(), {"--workload", rows.path, "--json"});
        return json(bench(more))["rows"];
    };
    std::set<std::string> cases;
    for (const auto& row : measured({"--only", "second"})) {
        cases.insert(row["case"].get<std::string>());
        EXPECT_THAT(row["samples"].get<int>(), testing::AnyOf(3, 4)) << "and the one that is checked";
    }
    EXPECT_THAT(cases, testing::ElementsAre("planted x=fp32[3,4] out=fp32[3,4]"));
    EXPECT_EQ(measured({"--only", "planted"}).size(), 2 * measured({"--only", "first"}).size());
    EXPECT_EQ(weft(bench({"--workload", rows.path, "--only", "third"})).code, 2);
    EXPECT_THAT(weft(bench({"--workload", rows.path, "--budget-s", "1e-9"})).out,
                HasSubstr("2 cases are left: the time is spent"));
    EXPECT_THAT(weft(bench({"--workload", rows.path, "--budget-s", "1000"})).out, Not(HasSubstr("are left")));
}

TEST(BenchOptions, DrawSamples) {
    const auto listed = [](const std::string& seed, const std::string& cases) {
        return weft({"bench", "--sample", "residual_add,copy", "--cases", cases, "--seed", seed, "--list"})
            .out;
    };
    const std::string three = listed("1", "3");
    EXPECT_EQ(std::count(three.begin(), three.end(), '\n'), 6);
    EXPECT_THAT(three, AllOf(HasSubstr("residual_add x="), HasSubstr("copy ")));
    EXPECT_EQ(listed("1", "3"), three);
    EXPECT_NE(listed("2", "3"), three);
    EXPECT_THAT(weft({"bench", "--sample", "residual_add", "--cases", "20", "--seed", "1", "--kernels"}).out,
                AllOf(HasSubstr("Of 20 drawn cases an op, seed 1"), HasSubstr("residual_add  ")));
}

}  // namespace
}  // namespace weft
