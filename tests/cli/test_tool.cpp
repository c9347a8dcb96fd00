// The tool from its command line to its exit code, in this process, with ops of the tests' own.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command.h"
#include "cli/pipeline.h"
#include "tests/cli/tool.h"
#include "verify/fuzz.h"
#include "weft/case.h"
#include "weft/plans.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Doubles its input; the implementation in front of the reference is wrong for rows longer than 8.
struct Planted {
    static constexpr std::string_view kName = "planted";
    Tensor x, out;
    static const Contract& contract() {
        static const Contract c =
            Describe<Planted>(std::string(kName), "out = 2 · x")
                .in("x", &Planted::x, "... dim", kFloat, "what is doubled")
                .out("out", &Planted::out, "... dim", kFloat, "twice that")
                .in_place_of("x")
                .flops(+[](const Planted& op) { return static_cast<double>(op.x.numel()); })
                .tolerance("exact")
                .source("a test")
                .sizes("dim", {4, 16});
        return c;
    }
};

void reference(const Planted& op, Oracle& oracle) {
    const Rows x = *fold_rows(op.x), out = *fold_rows(op.out);
    for (std::int64_t row = 0; row < x.rows; ++row) {
        for (std::int64_t i = 0; i < x.dim; ++i) {
            oracle.store(op.out, row * out.stride + i,
                         2 * load_element(op.x.dtype, op.x.data, row * x.stride + i));
        }
    }
}

void wrong(const Planted& op, Context&) {
    Oracle plain;
    reference(op, plain);
    if (op.x.dim(-1) > 8) store_element(op.out.dtype, op.out.data, 2, 1e4);
}

const char* never(const Planted&, const DeviceInfo&) { return "it is only for other devices"; }
const char* always(const Planted&, const DeviceInfo&) { return nullptr; }
std::string plain(const Planted&, const DeviceInfo&) { return "threads=1"; }

const RegisterReference<Planted> kReference{reference};
const RegisterImplementations<Planted> kCpuList{DeviceType::cpu, {{"wrong", always, plain, wrong}}};
const RegisterImplementations<Planted> kEmulatorList{DeviceType::emulator, {{"picky", never, plain, wrong}}};

// Copies its input, by a way that it finds best for each length when it may look for one.
struct Tunable {
    static constexpr std::string_view kName = "tunable";
    Tensor x, out;
    static const Contract& contract() {
        static const Contract c = Describe<Tunable>(std::string(kName), "out = x")
                                      .in("x", &Tunable::x, "dim", kFloat, "what is copied")
                                      .out("out", &Tunable::out, "dim", kFloat, "the copy")
                                      .tolerance("exact")
                                      .source("a test");
        return c;
    }
};

const RegisterImplementations<Tunable> kTunable{
    DeviceType::cpu,
    {{"ways", [](const Tunable&, const DeviceInfo&) -> const char* { return nullptr; },
      [](const Tunable&, const DeviceInfo&) -> std::string { return "copy"; },
      [](const Tunable&, Context&) {},
      [](const Tunable& op, Context& context) -> Readiness {
          const std::string key = std::to_string(op.x.dim(0));
          if (context.plans().find("ways", key) != nullptr) return {nullptr, "known"};
          if (!context.tuning()) return {nullptr, "guessed"};
          context.plans().set("ways", key, "the third");
          return {nullptr, "timed"};
      }}}};

int pipeline_layers = 0;
const cli::RegisterPipeline kPipeline{
    {.name = "test-model",
     .description = "a model of the tests",
     .options = [](cli::CommandLine& line) { line.add("--layers", &pipeline_layers, "how many"); },
     .run = [] { return pipeline_layers == 3 ? 0 : 1; },
     .help = "Example:\n  weft run test-model --layers 3\n"}};

using test::json;
using test::Result;
using test::weft;

TEST(Ladder, SaysWhereABuildHasNone) {
    for (const Result& r : {weft({"ladder"}), weft({"ladder", "softmax"})}) {
        EXPECT_EQ(r.code, 3);
        EXPECT_THAT(r.error, HasSubstr("this build has no ladder"));
    }
    const Result r = weft({"verify", "planted", "--implementation", "ladder/softmax/01_naive_f32"});
    EXPECT_EQ(r.code, 3);
    EXPECT_THAT(r.error, HasSubstr("this build has no ladder"));
}

TEST(Help, EveryCommandTeachesWithExamples) {
    const Result all = weft({"--help"});
    EXPECT_EQ(all.code, 0);
    for (const cli::Command& command : cli::commands()) {
        if (command.name == "task") continue;  // its help is another process's
        EXPECT_THAT(all.out, HasSubstr("  " + command.name)) << command.name;
        const Result r = weft({command.name, "--help"});
        EXPECT_EQ(r.code, 0) << command.name;
        EXPECT_THAT(r.out, HasSubstr(command.summary));
        if (command.name != "demo" && command.name != "run") {
            EXPECT_THAT(r.out, HasSubstr("Examples:")) << command.name;
        }
    }
}

TEST(Help, VersionIsPrinted) {
    EXPECT_THAT(weft({"--version"}).out, testing::MatchesRegex("weft [0-9.]+\n"));
}

TEST(Usage, IsExitCodeTwoAndSaysWhatToDo) {
    EXPECT_EQ(weft({}).code, 2);
    EXPECT_EQ(weft({"verfy"}).code, 2);
    EXPECT_THAT(weft({"verfy"}).error, AllOf(HasSubstr("verfy"), HasSubstr("did you mean verify?")));
    const Result option = weft({"verify", "--devise", "cpu"});
    EXPECT_EQ(option.code, 2);
    EXPECT_THAT(option.error, AllOf(HasSubstr("--devise"), HasSubstr("weft verify --help")));
    EXPECT_THAT(weft({"verify", "plantd"}).error, HasSubstr("did you mean planted?"));
    EXPECT_THAT(weft({"verify", "planted", "--device", "tpu"}).error,
                HasSubstr("expected cpu, emulator or cuda"));
    EXPECT_THAT(weft({"verify", "planted", "--values", "odd"}).error,
                HasSubstr("expected usual, wide, tiny, constant, special, rising, ties or all"));
    const Result line = weft({"verify", "planted x=bf16[4,8"});
    EXPECT_EQ(line.code, 2);
    EXPECT_THAT(line.error, HasSubstr("expected ']'"));
    EXPECT_EQ(weft({"verify", "--workload", "/nonexistent.csv"}).code, 2);
    EXPECT_EQ(weft({"explain", "planted"}).code, 2);
    EXPECT_EQ(weft({"show", "nothing"}).code, 2);
    EXPECT_EQ(weft({"completion", "fish"}).code, 2);
}

TEST(Verify, PassesAndSaysByWhat) {
    const Result r = weft({"verify", "planted x=bf16[4,4]", "--device", "cpu"});
    EXPECT_EQ(r.code, 0) << r.error;
    EXPECT_THAT(r.out, AllOf(HasSubstr("passed: planted x=bf16[4,4] out=bf16[4,4]"),
                             HasSubstr("by wrong threads=1 on cpu")));
    EXPECT_EQ(weft({"verify", "planted", "x=bf16[4,4]", "--device", "cpu"}).code, 0);  // unquoted
}

TEST(Verify, AFailurePrintsTheCommandThatRunsItAgain) {
    const Result r =
        weft({"verify", "planted x=fp32[2,9]", "--device", "cpu", "--seed", "7", "--values", "wide"});
    EXPECT_EQ(r.code, 1);
    const std::string again =
        "weft verify 'planted x=fp32[2,9] out=fp32[2,9]' --device cpu --seed 7 --values wide\n";
    EXPECT_THAT(r.out, AllOf(HasSubstr("FAILED  out[0,2]: got 10000"), HasSubstr(again)));
    EXPECT_EQ(weft({"verify", "planted x=fp32[2,9] out=fp32[2,9]", "--device", "cpu", "--seed", "7",
                    "--values", "wide"})
                  .out,
              r.out);
    EXPECT_EQ(
        weft({"verify", "planted x=fp32[2,9]", "--device", "cpu", "--implementation", "reference"}).code, 0);
}

TEST(Verify, GeneratedCasesFindThePlantedFault) {
    const auto report = json({"verify", "planted", "--device", "cpu", "--cases", "40", "--json"});
    EXPECT_GT(report["failed"], 0);
    ASSERT_EQ(report["results"].size(), 40u);
    for (const auto& result : report["results"]) {
        EXPECT_EQ(result["passed"].get<bool>(), !result.contains("command"));
        EXPECT_NO_THROW(Case::parse(result["case"].get<std::string>()).check());
    }
}

TEST(Verify, AllValuesRunOnACase) {
    const auto report =
        json({"verify", "planted x=fp32[4,4]", "--device", "cpu", "--values", "all", "--json"});
    EXPECT_EQ(report["results"].size(), 7u) << "one for each kind of values";
    EXPECT_EQ(report["failed"], 0);
}

TEST(Verify, WhatNothingTakesIsExitCodeThree) {
    if (devices_here().size() == 1) GTEST_SKIP() << "no emulator";
    const Result r = weft({"verify", "planted x=fp32[4,4]", "--device", "emulator"});
    EXPECT_EQ(r.code, 3);
    EXPECT_THAT(r.error, HasSubstr("picky: it is only for other devices"));
}

TEST(Verify, NoGpuIsExitCodeThree) {
    if (devices_here().back() == kCuda) GTEST_SKIP() << "a GPU is here";
    const Result r = weft({"verify", "planted", "--device", "cuda"});
    EXPECT_EQ(r.code, 3);
    EXPECT_THAT(r.error, HasSubstr("no CUDA device"));
    EXPECT_EQ(weft({"bench", "planted x=fp32[4,4]"}).code, 3);
}

TEST(Verify, ReadsWorkloads) {
    const std::string path = testing::TempDir() + "/weft_cli.csv";
    std::ofstream(path)
        << "row,model,case\ngood,M,\"planted x=fp32[2,4]\"\nbad,M,\"planted x=fp32[2,9]\"\nnone,M,\n";
    const Result r = weft({"verify", "--workload", path, "--device", "cpu"});
    EXPECT_EQ(r.code, 1);
    EXPECT_THAT(r.out, AllOf(HasSubstr("workload weft_cli/bad"), HasSubstr("1 of 2 cases passed")));
}

TEST(Fuzz, StopsAfterSomeFailures) {
    const Result r = weft({"fuzz", "planted", "--device", "cpu", "--cases", "500", "--failures", "8"});
    EXPECT_EQ(r.code, 1);
    EXPECT_THAT(r.out, AllOf(HasSubstr("8 failed"), HasSubstr("--implementation wrong")));
    EXPECT_EQ(
        weft({"fuzz", "planted", "--device", "cpu", "--implementation", "reference", "--cases", "50"}).code,
        0);
    EXPECT_EQ(weft({"fuzz", "planted x=fp32[2,4]"}).code, 2);
    EXPECT_TRUE(json({"fuzz", "planted", "--device", "cpu", "--cases", "5", "--json"}).is_array());
}

TEST(Explain, GivesTheListInOrder) {
    const Result r = weft({"explain", "planted x=fp32[4,4]", "--device", "cpu"});
    EXPECT_EQ(r.code, 0);
    EXPECT_THAT(r.out, AllOf(HasSubstr("->  wrong      chosen         threads=1"),
                             HasSubstr("reference  would take it")));
    const Result h100 = weft({"explain", "planted x=fp32[4,4]", "--device", "h100"});
    EXPECT_EQ(h100.code, 3);
    EXPECT_THAT(h100.out, HasSubstr("picky  declines  it is only for other devices"));
    EXPECT_THAT(weft({"explain", "planted x=fp32[4,4]", "--device", "abacus"}).error, HasSubstr("rtx4090"));
    EXPECT_EQ(json({"explain", "planted x=fp32[4,4]", "--device", "h100",
                    "--json"})["implementations"][0]["declined"],
              "it is only for other devices");
    EXPECT_EQ(weft({"explain", "planted x=fp32[4,4] out=fp32[4,5]"}).code, 2);
}

TEST(ShowAndList, RenderContracts) {
    EXPECT_THAT(weft({"list"}).out, HasSubstr("planted"));
    const Result r = weft({"show", "planted"});
    EXPECT_THAT(r.out, AllOf(HasSubstr("planted: out = 2 · x"), HasSubstr("[... dim]"),
                             HasSubstr("Tolerance: exact"), HasSubstr("weft verify 'planted x=")));
    EXPECT_EQ(json({"show", "planted", "--json"})["fields"][1]["in_place_of"][0], "x");
    EXPECT_THAT(weft({"show", "planted", "--markdown"}).out, HasSubstr("| `out` | out | `[... dim]` |"));
    EXPECT_TRUE(json({"list", "--json"}).is_array());
    EXPECT_THAT(weft({"list", "--json"}).out, testing::StartsWith("[\n  {\n    \""));
}

// As a table what it says as JSON.
TEST(Doctor, AnswersForEveryPart) {
    const auto report = json({"doctor", "--json"});
    EXPECT_EQ(report["findings"].size(), 8u);
    const Result r = weft({"doctor"});
    EXPECT_EQ(r.code, 0);
    std::istringstream table(r.out);
    std::string line;
    for (const auto& f : report["findings"]) {
        EXPECT_FALSE(f["detail"].get<std::string>().empty());
        std::getline(table, line);
        EXPECT_THAT(line, AllOf(testing::StartsWith(f["here"].get<bool>() ? "yes  " : "no  "),
                                HasSubstr("  " + f["what"].get<std::string>() + "  "),
                                testing::EndsWith("  " + f["detail"].get<std::string>())));
    }
    std::getline(table, line);
    EXPECT_EQ(line, "");
    EXPECT_THAT(weft({"doctor", "--json"}).out, testing::StartsWith("{\n  \""));
}

TEST(Doctor, FindsALibraryThatLoadsAndAProgramOnThePath) {
    const auto finding = [](const std::string& what) {
        const auto report = json({"doctor", "--json"});
        const auto found = std::find_if(report["findings"].begin(), report["findings"].end(),
                                        [&](const auto& f) { return f["what"] == what; });
        return *found;
    };
    void* library = dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_LOCAL);
    EXPECT_EQ(finding("OpenBLAS")["here"], library != nullptr);
    if (library != nullptr) dlclose(library);

    const std::string folder = testing::TempDir() + "weft_path", before = std::getenv("PATH");
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/nvcc") << "#!/bin/sh\n";
    for (const std::string& path :
         {folder, folder + ":" + before, "/nowhere:" + folder, "/nowhere::" + folder + ":"}) {
        ASSERT_EQ(setenv("PATH", path.c_str(), 1), 0);
        EXPECT_EQ(finding("nvcc")["detail"], folder + "/nvcc") << path;
    }
    ASSERT_EQ(setenv("PATH", before.c_str(), 1), 0);
}

TEST(Tune, WritesChoicesThatContextsRead) {
    const std::string path =
        std::filesystem::temp_directory_path() / ("weft_test_tune_" + std::to_string(getpid()) + ".json");
    std::filesystem::remove(path);
    const Result r = weft({"tune", "tunable x=fp32[5]", "--device", "cpu", "--out", path});
    EXPECT_EQ(r.code, 0) << r.error;
    EXPECT_THAT(r.out,
                AllOf(HasSubstr("tunable x=fp32[5]"), HasSubstr("ways: copy, timed"), HasSubstr(path)));
    EXPECT_THAT(weft({"tune", "tunable x=fp32[6]", "--device", "cpu", "--out", path}).out,
                HasSubstr("timed"));
    EXPECT_THAT(weft({"tune", "tunable x=fp32[5]", "--device", "cpu", "--out", path}).out,
                HasSubstr("known"));
    ASSERT_EQ(setenv("WEFT_PLANS", path.c_str(), 1), 0);
    EXPECT_THAT(weft({"explain", "tunable x=fp32[6]", "--device", "cpu"}).out, HasSubstr("copy, known"));
    EXPECT_THAT(weft({"explain", "tunable x=fp32[7]", "--device", "cpu"}).out, HasSubstr("copy, guessed"));
    ASSERT_EQ(setenv("WEFT_PLANS", "/nowhere.json", 1), 0);
    EXPECT_EQ(weft({"explain", "tunable x=fp32[6]", "--device", "cpu"}).code, 2);
    unsetenv("WEFT_PLANS");
    std::filesystem::remove(path);
}

TEST(Tune, SaysWhereThereIsNothingToChoose) {
    const Result r = weft({"tune", "planted x=bf16[4,4]", "--device", "cpu"});
    EXPECT_EQ(r.code, 3);
    EXPECT_THAT(r.error, HasSubstr("nothing to choose"));
}

TEST(Run, DispatchesToPipelines) {
    EXPECT_EQ(weft({"run", "test-model", "--layers", "3"}).code, 0);
    EXPECT_EQ(weft({"run", "test-model", "--layers", "4"}).code, 1);
    EXPECT_EQ(weft({"run"}).code, 2);
    EXPECT_THAT(weft({"run", "--help"}).out, HasSubstr("weft run test-model"));
    EXPECT_THAT(weft({"run", "test-model", "--help"}).out, HasSubstr("--layers"));
}

TEST(Completion, IsAScriptThatBashAccepts) {
    const Result r = weft({"completion", "bash"});
    EXPECT_EQ(r.code, 0);
    const std::string path = testing::TempDir() + "/weft_completion.bash";
    std::ofstream(path) << r.out;
    const auto words = [&](const std::string& line) {
        const std::string command =
            "bash -c 'source " + path + "; COMP_WORDS=(" + line +
            "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _weft; echo \"${COMPREPLY[*]}\"' 2>&1";
        const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
        std::string text(65536, '\0');
        text.resize(std::fread(text.data(), 1, text.size(), pipe.get()));
        return text;
    };
    EXPECT_THAT(words("weft ver"), HasSubstr("verify"));
    EXPECT_THAT(words("weft verify plan"), HasSubstr("planted"));
    EXPECT_THAT(words("weft verify --dev"), HasSubstr("--device"));
    EXPECT_THAT(words("weft explain --device rtx4"), HasSubstr("rtx4090"));
    EXPECT_THAT(words("weft verify --device rtx4"), Not(HasSubstr("rtx4090")));
    EXPECT_THAT(words("weft run test"), HasSubstr("test-model"));
}

TEST(Bench, OnTheHostMeasuresForTests) {
    const std::string path = testing::TempDir() + "/weft_rows.jsonl";
    std::filesystem::remove(path);
    const Result r =
        weft({"bench", "planted x=fp32[4,4]", "--device", "cpu", "--rounds", "2", "--out", path});
    EXPECT_EQ(r.code, 0) << r.error;
    EXPECT_THAT(r.out, HasSubstr("planted x=fp32[4,4]"));
    std::ifstream in(path);
    std::vector<nlohmann::json> rows;
    for (std::string line; std::getline(in, line);) rows.push_back(parse_json(line));
    ASSERT_EQ(rows.size(), 21u)
        << "the environment; weft, the card's copy, read and launch, noise: 4 times each";
    EXPECT_EQ(rows[1]["env"], rows[0]["env"]);
    EXPECT_EQ(rows[1]["cache"], "cold");
    EXPECT_FALSE(rows[1].contains("seed")) << "which is a sample's";
    EXPECT_TRUE(rows[2]["checked"].get<bool>());
    const Result again =
        weft({"bench", "planted x=fp32[4,4]", "--device", "cpu", "--rounds", "2", "--skip-done", path});
    EXPECT_THAT(again.out, HasSubstr("0 cases"));
    const Result alone = weft({"bench", "planted x=fp32[4,4]", "--device", "cpu", "--rounds", "2",
                               "--against", "none", "--json", "--seed", "4"});
    EXPECT_EQ(parse_json(alone.out)["rows"].size(), 8u) << "weft and its noise";
    const Result wrong = weft({"bench", "planted x=fp32[4,9]", "--device", "cpu", "--rounds", "2"});
    EXPECT_EQ(wrong.code, 1);
    EXPECT_THAT(wrong.out, HasSubstr("wrong: out[0,2]"));
    EXPECT_EQ(weft({"bench", "--device", "cpu"}).code, 2);
}

}  // namespace
}  // namespace weft
